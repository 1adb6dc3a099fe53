"""The socket that joins the terminal of a run to ``dbg-broker run``."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

from dbg_wire.errors import PeerError
from dbg_wire.messages.run_terminal import Task, Told, decode_task, encode_line

MAX_TASK = 64 * 1024
"""Bytes of a run's task at most: a path and a target."""


def read_task(connection: socket.socket) -> tuple[Task, bytes]:
    """Return the run's task, and the bytes that have come behind it by now."""
    data = b""
    while b"\n" not in data:
        more = connection.recv(4096)
        if not more or len(data) > MAX_TASK:
            raise PeerError("a run that was cut off")
        data += more
    line, _, rest = data.partition(b"\n")
    return decode_task(line), rest


class RunSocket:
    """The connection to the run."""

    def __init__(self, connection: socket.socket, task: Task) -> None:
        self._connection = connection
        self._told = Told()
        self._is_hung = False
        self.task = task
        self.over = asyncio.Event()
        """Set once the job has ended, or the run."""
        self.was_killed = False
        self.on_killed: Callable[[], None] | None = None
        """Called when the run has ended before the job: what is typed from now on is for the user's shell."""
        self.on_interrupt: Callable[[], None] = lambda: None
        """Called when Ctrl-C was typed, which the run passes on to the job."""
        connection.setblocking(False)
        asyncio.get_running_loop().add_reader(connection, self._read)

    def interrupted(self) -> None:
        """Take note that Ctrl-C was typed."""
        self.on_interrupt()

    def tell(self, told: Told) -> None:
        """Tell the run, unless this is not new or the run is gone."""
        told = told.replace(hung=self._is_hung)
        if told == self._told:
            return
        self._told = told
        self._connection.setblocking(True)
        with contextlib.suppress(OSError):
            self._connection.sendall(encode_line(told))
        self._connection.setblocking(False)

    def end_job(self) -> None:
        """Ask the run to end the job, which hangs."""
        self._is_hung = True
        self.tell(self._told)

    def close(self) -> None:
        """Stop listening, and close the socket."""
        asyncio.get_running_loop().remove_reader(self._connection)
        self._connection.close()

    def _read(self) -> None:
        try:
            data = self._connection.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._connection)
            self.was_killed = not self.over.is_set()
            if self.was_killed and self.on_killed is not None:
                self.on_killed()
        self.over.set()
