"""The output of a command: that of its own thread only, and up to a bound."""

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
"""Characters that are kept of one command's output, more than any answer holds; the rest is counted and lost."""


class Capture(io.TextIOBase):
    """The stdout of a command, and a stdin that is at its end."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[str] = []
        self._kept = 0
        self.lost = 0
        self.state = PromptState.COMMAND
        self.unwinding: BaseException | None = None
        self.prompt = None

    def write(self, text: str) -> int:
        """Keep text."""
        kept = text[: max(0, MAX_CAPTURED - self._kept)]
        self._parts.append(kept)
        self._kept += len(kept)
        self.lost += len(text) - len(kept)
        return len(text)

    def readline(self, _size: int | None = -1) -> str:  # type: ignore[override] # positional in the base class, too
        """Return the end of input: no user is asked."""
        return ""

    def consume_interrupt(self) -> bool:
        """Return False: the question that a command answers has its own deadline."""
        return False

    def writable(self) -> bool:
        """Say yes."""
        return True

    def close(self) -> None:
        """Do nothing: a command that closes its stdout must not end the capture."""

    @property
    def text(self) -> str:
        """Return what was printed."""
        return "".join(self._parts)


class ForOneThread:
    """A stream that is ours for one thread and the program's own for all other threads."""

    def __init__(self, ours: Any, real: Any) -> None:
        self._ours = ours
        self.real = real
        self._thread = threading.get_ident()

    def release(self) -> None:
        """Become the program's own stream for this thread, too: ``redirect_stdout`` may have kept this object."""
        self._ours = self.real

    @property
    def is_released(self) -> bool:
        """Return True if the thread has its own stream again."""
        return self._ours is self.real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ours if threading.get_ident() == self._thread else self.real, name)

    def __iter__(self) -> Any:
        return iter(self._ours if threading.get_ident() == self._thread else self.real)


@contextmanager
def talking_to(ours: Any, *names: str) -> Iterator[None]:
    """Put a stream of ours in the place of these of ``sys`` for this thread in this context; usually of both below."""
    before = {name: getattr(sys, name) for name in names or ("stdin", "stdout")}
    mine = {name: ForOneThread(ours, stream) for name, stream in before.items()}
    vars(sys).update(mine)
    try:
        yield
    finally:
        for name, stream in mine.items():
            # One that the command has set on purpose stays. One that it has deleted is restored: code needs it.
            if getattr(sys, name, stream) is stream:
                setattr(sys, name, _in_use(before[name]))
            stream.release()


def _in_use(stream: Any) -> Any:
    """Return a stream without those of ours in front of it that another thread has released meanwhile."""
    while type(stream) is ForOneThread and stream.is_released:
        stream = stream.real
    return stream
