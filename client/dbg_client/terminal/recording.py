"""Recording of a session in a file, as an asciicast of version 2, which terminals and pages can play."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from dbg_wire.errors import BadInput, printable


class Recording:
    """One file with all output of the terminal.

    A failure to write ends the recording but not the session; :meth:`close` returns the reason. All methods belong to
    one thread. ``size`` returns the terminal's (rows, columns).
    """

    def __init__(self, path: str, size: Callable[[], tuple[int, int]]) -> None:
        """Create the file, with mode 600. Raises BadInput if the file exists or can't be created."""
        self._path, self._size = Path(path), size
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise BadInput(f"--record {printable(path)} can't be created ({reason})", "name a new file") from None
        self._file = os.fdopen(descriptor, "w", encoding="ascii")
        self._began: float | None = None
        self._shown = codecs.getincrementaldecoder("utf-8")("replace")
        self._problem = ""

    def shown(self, data: bytes | str) -> None:
        """Record output; the bytes of one character may come in two calls."""
        self._put("o", data if isinstance(data, str) else self._shown.decode(data))

    def resized(self) -> None:
        """Record the terminal's new size."""
        rows, columns = self._size()
        self._put("r", f"{columns}x{rows}")

    def close(self) -> str:
        """Return why the recording is incomplete, or "" if it is complete. A file without any event is removed."""
        with contextlib.suppress(OSError):
            self._file.close()
            if self._began is None:
                self._path.unlink()
        return self._problem

    def _put(self, kind: str, text: str) -> None:
        if not text:
            return
        now = time.monotonic()
        if self._began is None:
            self._began = now
            self._append(self._header())
        self._append([round(now - self._began, 6), kind, text])

    def _header(self) -> dict[str, object]:
        rows, columns = self._size()
        terminal = {"TERM": os.environ.get("TERM", "")}
        return {"version": 2, "width": columns, "height": rows, "timestamp": int(time.time()), "env": terminal}

    def _append(self, document: object) -> None:
        if self._problem:
            return
        try:
            # JSON escapes control characters and non-ASCII ones, so that `cat` of the file can't change the terminal.
            self._file.write(f"{json.dumps(document)}\n")
            self._file.flush()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            self._problem = f"the recording {printable(str(self._path))} ends early: {reason}"
