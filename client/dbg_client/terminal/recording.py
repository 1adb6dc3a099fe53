"""Recording of a session in a file, as an asciicast of version 2, which terminals and pages can play.

A thread writes: a slow or full disk delays no key.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

from dbg_wire.errors import BadInput, printable
from dbg_wire.limits import MIB

MAX_WAITING_BYTES = 64 * MIB
"""Bytes that wait for the disk: some minutes of a busy session. The recording ends if there are more."""

END_SECONDS = 1.0
"""Seconds given at the end to the events that still wait."""


class Recording:
    """One file with what the terminal is shown.

    Only the constructor and :meth:`close` wait for the disk. A failure ends the recording, and :meth:`close` returns
    the reason. All methods belong to one thread. ``size`` returns the terminal's (rows, columns).
    """

    def __init__(
        self,
        path: str,
        size: Callable[[], tuple[int, int]],
        *,
        write: Callable[[int, bytes], int] = os.write,
    ) -> None:
        """Create the file, with mode 600. Blocks. Raises BadInput if the file exists or can't be created.

        ``write`` may block, raise OSError, or write a part.
        """
        self._path = Path(path)
        self._size = size
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise BadInput(f"--record {printable(path)} can't be created ({reason})", "name a new file") from None
        self._write = write
        self._began: float | None = None
        self._shown = codecs.getincrementaldecoder("utf-8")("replace")
        self._problem = ""
        self._waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._put_bytes = self._written = 0
        """Bytes of whole lines in the file."""
        self._thread = threading.Thread(target=self._work, name="dbg-attach-record", daemon=True)
        self._thread.start()

    def shown(self, data: bytes | str) -> None:
        """Record output; a character may be cut between two calls."""
        self._put("o", data if isinstance(data, str) else self._shown.decode(data))

    def resized(self) -> None:
        """Record the terminal's new size."""
        rows, columns = self._size()
        self._put("r", f"{columns}x{rows}")

    def close(self) -> str:
        """Write the waiting events, and return why the recording is not complete; empty if it is.

        A file without any event is removed.
        """
        self._waiting.put(None)
        self._thread.join(END_SECONDS)
        if self._thread.is_alive():
            self._end("its file system does not answer")
        elif self._began is None:
            with contextlib.suppress(OSError):
                self._path.unlink()
        return self._problem

    def _put(self, kind: str, text: str) -> None:
        if self._problem or not text:
            return
        if self._put_bytes - self._written > MAX_WAITING_BYTES:
            self._end("its disk is too slow")
            return
        now = time.monotonic()
        if self._began is None:
            self._began = now
            self._put_line(self._header())
        self._put_line([round(now - self._began, 6), kind, text])

    def _put_line(self, document: object) -> None:
        # All but ASCII is escaped, so that `cat` shows a recording without harm.
        line = json.dumps(document).encode() + b"\n"
        self._put_bytes += len(line)
        self._waiting.put(line)

    def _header(self) -> dict[str, object]:
        rows, columns = self._size()
        terminal = {"TERM": os.environ.get("TERM", "")}
        return {"version": 2, "width": columns, "height": rows, "timestamp": int(time.time()), "env": terminal}

    def _end(self, reason: str) -> None:
        self._problem = self._problem or f"the recording {printable(str(self._path))} ends early: {reason}"

    def _work(self) -> None:
        try:
            while (line := self._waiting.get()) is not None:
                self._append(line)
        except OSError as error:
            self._end(error.strerror or type(error).__name__)
        finally:
            os.close(self._descriptor)

    def _append(self, line: bytes) -> None:
        rest = line
        try:
            while rest:
                rest = rest[self._write(self._descriptor, rest) :]
        except OSError:
            # A full disk takes a part of a line, which no player reads.
            os.ftruncate(self._descriptor, self._written)
            raise
        self._written += len(line)
