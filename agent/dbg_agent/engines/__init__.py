"""Debuggers as views of a stop; each is imported when it is first opened."""

from __future__ import annotations

import enum
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from dbg_wire.engines import PDB

if TYPE_CHECKING:
    from ..rank.rank import Rank
    from .tracing import Tracing


class Outcome(enum.Enum):
    """Say how a debugger was left."""

    GO_ON = "go on"
    """The thread goes on; the stop is over."""
    STEP = "step"
    """The thread runs to the end of a step; the stop is the same."""
    LEFT = "left"
    """Another debugger is to be opened on the same stop."""


class Engine(Protocol):
    """Promise what the rank needs of a debugger. All methods run in the stopped thread unless they say otherwise."""

    name: str

    @property
    def tracing(self) -> Tracing:
        """Return what traces the program for this debugger."""

    def interact(self, frame: FrameType, traced: bool) -> Outcome:
        """Show the debugger at this frame until it is left; ``traced`` if called by another engine's trace function."""

    def post_mortem(self, error: BaseException) -> Outcome:
        """Show the debugger where this exception was raised, until it is left; nothing can move there."""

    def redraw(self) -> None:
        """Draw all of the screen at the next interaction: in a new session whoever looks has an empty one."""

    def note(self, text: str) -> None:
        """Say something before the debugger is shown."""

    def ignores(self, frame: FrameType) -> bool:
        """Tell whether the user has switched off the stop at this place."""

    def screen(self) -> tuple[str, ...]:
        """Return what was last shown, one string a row; from any thread."""

    def complete(self, line: str, begin: int, end: int) -> tuple[str, ...]:
        """Return what ``line[begin:end]`` may become at the prompt."""

    @property
    def is_working(self) -> bool:
        """Tell whether something runs for the debugger that :meth:`interrupt` would end; from any thread."""

    def interrupt(self) -> None:
        """Interrupt the command that runs, if one does; from any thread."""


def load(name: str, rank: Rank) -> Engine:
    """Import and build the debugger of that name; whatever its import raises comes out."""
    if name == PDB:
        from .pdb import PdbEngine

        return PdbEngine(rank)
    from .pudb import build

    return build(rank)
