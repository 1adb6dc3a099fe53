"""The parts of a rank that its line breakpoints need."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Protocol

from dbg_agent.engines.engine import Engine
from dbg_agent.engines.port import ShownStop
from dbg_agent.rank.debuggers import Debuggers
from dbg_agent.rank.membership import Membership
from dbg_agent.rank.user_breakpoints import UserBreakpoints
from dbg_agent.stop.stops import Stops
from dbg_wire.messages import Message


class StopAtBreakpoint(ShownStop, Protocol):
    """The stop of a rank, as its breakpoints need it."""

    def stop(self, frame: FrameType, reason: str, *, before_line: bool = False) -> None:
        """Stop the calling thread at this frame until it is let go."""

    def has_just_halted(self, frame: FrameType) -> bool:
        """Tell, once for each halt, whether a step or a breakpoint has just halted this frame at its present line."""

    def open_engine(self) -> Engine | None:
        """Return the debugger that is open on the stop."""

    def show_source_again(self) -> None:
        """Send the lines around the line debugger's frame once more."""


class RankWithBreakpoints(Protocol):
    """A rank whose breakpoints IDEs and agents set."""

    breakpoints: UserBreakpoints
    debuggers: Debuggers
    membership: Membership
    stops: Stops

    @property
    def stopping(self) -> StopAtBreakpoint:
        """Return what stops the calling thread."""

    @property
    def number(self) -> int:
        """Return the rank's global number."""

    def warn(self, text: str) -> None:
        """Write one line to stderr, once; never raise."""

    def send(self, message: Message) -> None:
        """Have a message sent."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something in the link's thread after some seconds."""
