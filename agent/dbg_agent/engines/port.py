"""What debuggers see of the rank whose stop they show: narrow views for their parts, and one view for a debugger."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

from dbg_agent.engines.leaving import WayOut
from dbg_agent.stop.busy import Busy
from dbg_agent.stop.crash import Crash
from dbg_agent.stop.inbox import Inbox
from dbg_agent.stop.interruptible import Interruptible
from dbg_agent.stop.loaded_sources import Loaded
from dbg_agent.stop.own_frames import FrameAt
from dbg_agent.stop.stops import Stops
from dbg_agent.stop.terminal import Terminal
from dbg_wire.messages import Message


class SharedBreakpoints(Protocol):
    """The rank's breakpoints, as debuggers need them."""

    lines: dict[str, list[int]]
    """The lines with breakpoints by file, as bdb keeps them. All debuggers share them."""

    @property
    def are_traced(self) -> bool:
        """Tell whether a thread that runs on must be traced for a breakpoint."""

    def chosen_at(self, frame: FrameType, file: str, line: int) -> tuple[bool, Any]:
        """Tell whether breakpoints that bdb does not know are set, and which one stops the traced frame at its line."""

    def look(self) -> None:
        """Take in the breakpoints that are set now, before anything is shown; in the stopped thread."""


class View(Protocol):
    """Which frame of a stop is looked at."""

    opening: FrameType | None
    """The frame that a debugger shows first; None if that is the frame of the stop."""

    def frames(self) -> list[FrameAt]:
        """Return the program's frames at this stop, outermost first."""

    def find(self, wanted: str) -> FrameAt | None:
        """Return the frame that a user asks for, or the one that is looked at; raise NoSuchFrame."""

    def is_usual(self, at: FrameAt) -> bool:
        """Tell whether this is the frame that a debugger shows first."""

    def open_at(self, wanted: str) -> None:
        """Show the frame that a user asks for, now or when a debugger opens; raise NoSuchFrame."""


class ShownStop(Protocol):
    """The stop that a debugger shows. All methods run in the stopped thread."""

    frame: FrameType | None
    """Where the stopped thread is halted; None while it runs."""
    crash: Crash | None
    """The crash that the rank is kept for; None at a stop of another kind."""

    @property
    def view(self) -> View:
        """Return which frame of the stop is looked at."""

    def looked_at(self) -> FrameType | None:
        """Return the frame that the open debugger shows, or the frame of the stop if none is open."""

    def reveal(self) -> None:
        """Report a stop that was not reported yet, because it waits for a terminal now."""

    def take_keys(self, count: int) -> None:
        """Acknowledge to the terminals that the debugger took this many bytes of keys."""

    def show_source(self, frame: FrameType | None) -> None:
        """Send the lines around this frame's line, for terminals that may not have the file."""

    def traced_thread_halts(
        self, name: str, frame: FrameType, interact: Callable[[], WayOut], *, goes_on: bool = False
    ) -> None:
        """Take note from the trace function of the debugger of that name that a step or a breakpoint halts here."""


class OtherDebuggers(Protocol):
    """The rank's debuggers, as each of them needs the others."""

    def hand_over(self, tracing: object, frame: FrameType, follow: Any) -> Any:
        """Return the trace function that follows ``tracing`` in this frame: another debugger may be open by now."""

    def show_in_pdb(self, why: str) -> None:
        """Have pdb show the current stop from here on, and say this sentence."""


class StoppedRank(Protocol):
    """What both kinds of screens need: the work that waits for the stopped thread, and where output goes."""

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
    """What the console of a line debugger needs of its rank."""

    def publish(self) -> None:
        """Have a report sent."""

    def send(self, message: Message) -> None:
        """Have a message sent to the broker."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Have the link's thread call ``call`` after some seconds."""


class ScreenPort(StoppedRank, Protocol):
    """What PuDB's screen needs of its rank."""

    loaded: Loaded


class TracingPort(Protocol):
    """What the tracing of a debugger needs of its rank."""

    @property
    def stopping(self) -> ShownStop:
        """Return the stop that is shown."""

    @property
    def breakpoints(self) -> SharedBreakpoints:
        """Return the rank's breakpoints."""

    def warn(self, text: str) -> None:
        """Write one line to stderr, once; never raise."""

    @property
    def debuggers(self) -> OtherDebuggers:
        """Return the rank's debuggers."""


class WindowPort(Protocol):
    """What PuDB's window needs of its rank."""

    busy: Busy
    interruptible: Interruptible

    def send(self, message: Message) -> None:
        """Have a message sent to the broker."""


class LeavingPort(Protocol):
    """What a debugger needs of its rank to ask how to leave."""

    @property
    def address(self) -> str:
        """Return the name by which terminals address this rank."""

    @property
    def is_launched(self) -> bool:
        """Tell whether a launcher started this rank. The launcher ends the other ranks if this rank is killed."""

    @property
    def stopping(self) -> ShownStop:
        """Return the stop that is shown."""

    def kill(self) -> None:
        """End this process."""


class Port(ConsolePort, ScreenPort, TracingPort, WindowPort, LeavingPort, Protocol):
    """What a whole debugger needs of its rank."""

    @property
    def number(self) -> int:
        """Return the rank's global number."""
