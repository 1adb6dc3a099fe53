"""Capture of a command's output: of its own thread only, and limited in size."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dbg_wire.limits import MIB
from dbg_wire.messages import PromptState

MAX_CAPTURED = 1 * MIB
"""Maximum number of characters kept of one command's output: more than any answer contains. The rest is counted."""


class Capture(io.TextIOBase):
    """The stdout of a command, and its stdin, which contains no input."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[str] = []
        self._kept = 0
        self.lost = 0
        self.state = PromptState.COMMAND
        self.unwinding: BaseException | None = None
        self.prompt = None

    def write(self, text: str) -> int:
        """Store the text, up to MAX_CAPTURED characters of the whole output."""
        kept = text[: max(0, MAX_CAPTURED - self._kept)]
        self._parts.append(kept)
        self._kept += len(kept)
        self.lost += len(text) - len(kept)
        return len(text)

    def readline(self, _size: int | None = -1) -> str:  # type: ignore[override] # positional in the base class, too
        """Return an empty string, the end of input, because there is no user to ask."""
        return ""

    def consume_interrupt(self) -> bool:
        """Return False: no interrupt is recorded for a question's command, which has a deadline instead."""
        return False

    def writable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Do nothing: a command that closes its stdout must not end the capture."""

    @property
    def text(self) -> str:
        """The captured output."""
        return "".join(self._parts)


class ThreadStream:
    """A stream that redirects one thread to ``ours``; all other threads use the program's own stream."""

    def __init__(self, ours: Any, real: Any) -> None:
        self._ours = ours
        self.real = real
        self._thread = threading.get_ident()

    def release(self) -> None:
        """End the redirection in this object, because ``redirect_stdout`` may have kept a reference to it."""
        self._ours = self.real

    @property
    def is_released(self) -> bool:
        """Whether the redirection has ended."""
        return self._ours is self.real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ours if threading.get_ident() == self._thread else self.real, name)

    def __iter__(self) -> Any:
        return iter(self._ours if threading.get_ident() == self._thread else self.real)


@contextmanager
def redirected(ours: Any, *names: str) -> Iterator[None]:
    """Redirect these streams of ``sys`` to ``ours``, for this thread and context; by default stdin and stdout."""
    before = {name: getattr(sys, name) for name in names or ("stdin", "stdout")}
    mine = {name: ThreadStream(ours, stream) for name, stream in before.items()}
    vars(sys).update(mine)
    try:
        yield
    finally:
        for name, stream in mine.items():
            # Keep a stream that the command itself has set. Restore one that it has deleted: other code needs it.
            if getattr(sys, name, stream) is stream:
                setattr(sys, name, _in_use(before[name]))
            stream.release()


def _in_use(stream: Any) -> Any:
    """Return the stream without redirections that other threads have started and ended in the meantime."""
    while type(stream) is ThreadStream and stream.is_released:
        stream = stream.real
    return stream
