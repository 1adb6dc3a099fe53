"""What a rank needs of a debugger."""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING, Protocol

from .leaving import WayOut

if TYPE_CHECKING:
    # It loads bdb, which a rank that never opens a debugger doesn't need.
    from .tracing import Tracing


class Engine(Protocol):
    """Promise what the rank needs of a debugger. All methods run in the stopped thread unless they say otherwise."""

    name: str

    @property
    def tracing(self) -> Tracing:
        """Return what traces the program for this debugger."""

    def interact(self, frame: FrameType, traced: bool) -> WayOut:
        """Show the debugger at this frame until it is left; ``traced`` if called by another engine's trace function."""

    def post_mortem(self, error: BaseException) -> WayOut:
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
