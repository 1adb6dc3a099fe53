"""The debugger as the rank sees it."""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING, Protocol

from dbg_agent.engines.leaving import WayOut

if TYPE_CHECKING:
    # This module loads bdb, which a rank that never opens a debugger doesn't need.
    from dbg_agent.engines.tracing import Tracing


class Engine(Protocol):
    """What the rank needs of a debugger. All methods run in the stopped thread unless they say otherwise."""

    name: str

    @property
    def tracing(self) -> Tracing:
        """Return the part of this debugger that traces the program."""

    def interact(self, frame: FrameType, traced: bool) -> WayOut:
        """Show the debugger at this frame until it is left.

        ``traced`` says that another engine's trace function calls.
        """

    def post_mortem(self, error: BaseException) -> WayOut:
        """Show the debugger where this exception was raised, until it is left. The thread can't move from there."""

    def select(self, frame: FrameType) -> None:
        """Show another frame of the stop that is shown."""

    def redraw(self) -> None:
        """Draw all of the screen at the next interaction: a terminal of a new session begins with an empty screen."""

    def show_breakpoints(self) -> None:
        """Draw the breakpoints as they are now."""

    def note(self, text: str) -> None:
        """Show a sentence as soon as the debugger is shown."""

    def ignores(self, frame: FrameType) -> bool:
        """Tell whether the user has switched off the stop at this place."""

    def screen(self) -> tuple[str, ...]:
        """Return what was last shown, one string per row; from any thread."""

    def complete(self, line: str, begin: int, end: int) -> tuple[str, ...]:
        """Return what ``line[begin:end]`` may become at the prompt."""

    @property
    def is_working(self) -> bool:
        """Tell whether a command runs that :meth:`interrupt` would end; from any thread."""

    def interrupt(self) -> None:
        """Interrupt the command that runs, if one does; from any thread."""
