"""What debuggers see of the rank whose stop they show: narrow views for their parts, and one for a whole debugger."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

from dbg_wire.messages import Message

from ..stop.busy import Busy
from ..stop.crash import Crash
from ..stop.inbox import Inbox
from ..stop.interruptible import Interruptible
from ..stop.loaded_sources import Loaded
from ..stop.stops import Stops
from ..stop.terminal import Terminal
from .leaving import WayOut


class SharedBreakpoints(Protocol):
    """Say what debuggers need of the rank's breakpoints."""

    lines: dict[str, list[int]]
    """The lines with breakpoints by file, as bdb keeps them; all debuggers share them."""

    def look(self) -> None:
        """Take in what is set now, before anything is shown; in the stopped thread."""


class ShownStop(Protocol):
    """Say what debuggers tell the stop that they show, and ask of it; in the stopped thread."""

    frame: FrameType | None
    """Where the stopped thread is halted; None while it runs."""
    crash: Crash | None
    """What the stop keeps the rank for, if it does."""

    def looked_at(self) -> FrameType | None:
        """Return the frame that the open debugger shows, or else where the stop is."""

    def reveal(self) -> None:
        """Tell of a stop that nobody was told of so far, since it waits for somebody now."""

    def take_keys(self, count: int) -> None:
        """Acknowledge that the debugger took this many bytes."""

    def show_source(self, frame: FrameType | None) -> None:
        """Tell the lines round this frame's, for terminals that may not have the file."""

    def traced_thread_halts(
        self, name: str, frame: FrameType, interact: Callable[[], WayOut], *, goes_on: bool = False
    ) -> None:
        """Be told by the trace function of the debugger of that name that a step or a breakpoint ends here."""


class OtherDebuggers(Protocol):
    """Say what one debugger needs of the others."""

    def hand_over(self, tracing: object, frame: FrameType, follow: Any) -> Any:
        """Return what is to trace this frame on, after ``tracing`` did: another debugger may be open by now."""

    def show_in_pdb(self, why: str) -> None:
        """Have the current stop shown in pdb from here on, with this sentence."""


class StoppedRank(Protocol):
    """Say what both kinds of screens need: the work that waits for the stopped thread, and where output goes."""

    inbox: Inbox
    stops: Stops
    terminal: Terminal
    interruptible: Interruptible

    @property
    def breakpoints(self) -> SharedBreakpoints:
        """Return the rank's breakpoints."""

    @property
    def stopping(self) -> ShownStop:
        """Return the stop that is shown."""


class ConsolePort(StoppedRank, Protocol):
    """Say what the console of a line debugger needs of its rank."""

    def publish(self) -> None:
        """Have a report sent."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something in the link's thread after some seconds."""


class ScreenPort(StoppedRank, Protocol):
    """Say what PuDB's screen needs of its rank."""

    busy: Busy
    loaded: Loaded


class TracingPort(Protocol):
    """Say what the tracing of a debugger needs of its rank."""

    @property
    def breakpoints(self) -> SharedBreakpoints:
        """Return the rank's breakpoints."""

    def warn(self, text: str) -> None:
        """Write one line to stderr, once; never raise."""

    @property
    def debuggers(self) -> OtherDebuggers:
        """Return the rank's debuggers."""


class WindowPort(Protocol):
    """Say what PuDB's window needs of its rank."""

    interruptible: Interruptible

    def send(self, message: Message) -> None:
        """Have a message sent."""


class LeavingPort(Protocol):
    """Say what a debugger needs of its rank to ask how to leave."""

    @property
    def address(self) -> str:
        """Return what terminals call this rank."""

    @property
    def is_launched(self) -> bool:
        """Tell whether a launcher started this rank, and would end the others with it."""

    @property
    def stopping(self) -> ShownStop:
        """Return the stop that is shown."""

    def kill(self) -> None:
        """End this process."""


class Port(ConsolePort, ScreenPort, TracingPort, WindowPort, LeavingPort, Protocol):
    """Say what a whole debugger needs of its rank."""

    @property
    def number(self) -> int:
        """Return the rank's global number."""
