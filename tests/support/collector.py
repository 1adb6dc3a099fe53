"""The one thread that reads the output of a test's children and notices their ends."""

from __future__ import annotations

import os
import selectors
import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import IO

CHUNK = 65536
"""Bytes read at once: a full pipe."""


class Output:
    """One stream of a child: all its bytes so far, which also go to the child's log."""

    def __init__(self, pipe: IO[bytes], log: IO[bytes]) -> None:
        self.pipe = pipe
        self._log = log
        self._data = bytearray()
        os.set_blocking(pipe.fileno(), False)

    def text(self) -> str:
        return self._data.decode(errors="replace")

    def read_once(self) -> bool:
        """Read the bytes that are there; return False at the end of the stream."""
        if self.pipe.closed:
            return False
        try:
            data = os.read(self.pipe.fileno(), CHUNK)
        except BlockingIOError:
            return True
        if data and not self._log.closed:
            self._log.write(data)
        self._data += data
        return bool(data)

    def read_rest(self) -> None:
        """Read all bytes that are there, and wait for no more: a grandchild may hold the stream open for ever."""
        before = -1
        while len(self._data) > before:
            before = len(self._data)
            self.read_once()


class Collector:
    """A thread that reads the children's outputs.

    ``changed`` is notified whenever output was read or a child has ended; any thread may hold it.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._new: list[tuple[IO[bytes] | int, Callable[[], None]]] = []
        self._open: dict[int, IO[bytes] | int] = {}
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="collector", daemon=True)
        self._thread.start()

    def add(self, outputs: Sequence[Output], pidfd: int, note_end: Callable[[], None]) -> None:
        """Follow one child. ``note_end`` is called once, after all its output has been read, with ``changed`` held."""

        def end() -> None:
            for output in outputs:
                output.read_rest()
            note_end()
            self._forget(pidfd)

        with self.changed:
            self._new.extend((output.pipe, partial(self._read, output)) for output in outputs)
            self._new.append((pidfd, end))
        self._wake.send(b"+")

    def close(self) -> None:
        """Stop reading and close what is still open; return when the thread has ended."""
        with self.changed:
            self._closing = True
        self._wake.send(b"x")
        self._thread.join()
        for number in list(self._open):
            self._forget(number)
        self._selector.close()
        self._wake.close()
        self._woken.close()

    def _read(self, output: Output) -> None:
        if not output.read_once():
            self._forget(output.pipe.fileno())

    def _forget(self, number: int) -> None:
        source = self._open.pop(number)
        self._selector.unregister(number)
        if isinstance(source, int):
            os.close(source)
        else:
            source.close()

    def _run(self) -> None:
        while True:
            events = self._selector.select()
            with self.changed:
                for key, _ in events:
                    if key.data is None:
                        self._take_new()
                    # An earlier event of this round may have closed the file, and a new file may have its number now.
                    elif self._selector.get_map().get(key.fd) is key:
                        key.data()
                self.changed.notify_all()
                if self._closing:
                    return

    def _take_new(self) -> None:
        self._woken.recv(CHUNK)
        for source, act in self._new:
            number = source if isinstance(source, int) else source.fileno()
            self._open[number] = source
            self._selector.register(number, selectors.EVENT_READ, act)
        self._new.clear()
