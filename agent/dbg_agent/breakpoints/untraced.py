"""How the program comes to a breakpoint without a trace function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FrameType
from typing import Protocol

Reached = Callable[[FrameType, str, int], None]
"""Called in the program's thread with the frame, and the file and the line of a breakpoint, by which it comes."""

Lines = Mapping[str, frozenset[int]]
"""Lines with breakpoints, by file."""


class Untraced(Protocol):
    """A way without tracing. Methods are called by one thread at a time."""

    replaces_tracing: bool
    """Whether every thread stops at every line, so that no thread needs to be traced for it."""

    def serve(self, lines: Lines) -> None:
        """Have the program stop at these lines, and at no others, from now on."""

    @property
    def awaits(self) -> bool:
        """Return whether the program is still to make functions with breakpoints, so that another look is due."""

    def look_again(self) -> bool:
        """Have the program stop in functions that it has made since; return whether there was anything to look at."""

    def problem(self, file: str, line: int, halted: int | None) -> str:
        """Return what a user should know of the breakpoint at this line; empty if there is nothing.

        The thread ``halted`` will be traced when it goes on.
        """


class NoWay:
    """The way of an interpreter that has none, for this reason: only a traced thread stops."""

    replaces_tracing = False
    awaits = False

    def __init__(self, why: str) -> None:
        self._why = why

    def serve(self, lines: Lines) -> None:
        """Do nothing."""

    def look_again(self) -> bool:
        """Do nothing."""
        return False

    def problem(self, file: str, line: int, halted: int | None) -> str:
        """Return the reason."""
        return self._why
