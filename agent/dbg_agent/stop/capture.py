"""Keep what a command prints, for that thread alone and as far as anybody will read it."""

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
"""Characters kept of what one command prints: beyond any answer; what comes after is counted and lost."""


class Capture(io.TextIOBase):
    """Be the stdout of a command, and a stdin that is at its end."""

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
        """Return the end of input: nobody is asked."""
        return ""

    def writable(self) -> bool:
        """Say yes."""
        return True

    def close(self) -> None:
        """Do nothing: what closes its stdout must not take it from us."""

    @property
    def text(self) -> str:
        """Return what was printed."""
        return "".join(self._parts)


class ForOneThread:
    """Be a stream that is ours for one thread and the program's own for all others."""

    def __init__(self, ours: Any, real: Any) -> None:
        self._ours = ours
        self._real = real
        self._thread = threading.get_ident()

    def release(self) -> None:
        """Be the program's own for this thread, too: somebody may have kept it, as ``redirect_stdout`` does."""
        self._ours = self._real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ours if threading.get_ident() == self._thread else self._real, name)

    def __iter__(self) -> Any:
        return iter(self._ours if threading.get_ident() == self._thread else self._real)


@contextmanager
def talking_to(ours: Any) -> Iterator[None]:
    """Have ``print`` and ``input`` of this thread meet a stream of ours, while a command of ours runs."""
    before = sys.stdin, sys.stdout
    sys.stdin, sys.stdout = ForOneThread(ours, before[0]), ForOneThread(ours, before[1])
    mine = sys.stdin, sys.stdout
    try:
        yield
    finally:
        # What a command has put there on purpose stays; what it has deleted, nobody could do without.
        if getattr(sys, "stdin", mine[0]) is mine[0]:
            sys.stdin = before[0]
        if getattr(sys, "stdout", mine[1]) is mine[1]:
            sys.stdout = before[1]
        for stream in mine:
            stream.release()
