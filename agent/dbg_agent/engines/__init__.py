"""Debuggers as views of a stop; each is imported when it is first opened."""

from __future__ import annotations

import enum
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..rank import Rank


class Outcome(enum.Enum):
    """Say how a debugger was left."""

    GO_ON = "go on"
    """The thread goes on; the stop is over."""
    STEP = "step"
    """The thread runs to the end of a step; the stop is the same."""


class Engine(Protocol):
    """Promise what the rank needs of a debugger. All methods run in the stopped thread unless they say otherwise."""

    name: str

    def interact(self, frame: FrameType) -> Outcome:
        """Show the debugger at this frame until it is left."""

    def redraw(self) -> None:
        """Draw all of the screen at the next interaction: in a new session whoever looks has an empty one."""

    def tracer(self, frame: FrameType, before: Callable[..., Any] | None) -> Callable[..., Any] | None:
        """Return what is to trace the calling thread from this frame on, where ``before`` did so until now."""

    def ignores(self, frame: FrameType) -> bool:
        """Tell whether the user has switched off the stop at this place."""

    def breakpoints(self) -> int:
        """Count the breakpoints that may stop this rank again; from any thread."""

    def screen(self) -> tuple[str, ...]:
        """Return the screen as it was last drawn, one string a row; from any thread."""


def load(name: str, rank: Rank) -> Engine:
    """Import and build the debugger of that name; whatever its import raises comes out."""
    from .pudb import build

    return build(rank)
