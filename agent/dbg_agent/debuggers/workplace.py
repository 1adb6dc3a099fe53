"""What the debuggers of a rank work with: the breakpoints that they share, and the parts of the rank that they use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from dbg_agent.breakpoints.line_breakpoints import LineBreakpoints
    from dbg_agent.debuggers.console import Console, StoppedThread, Terminal
    from dbg_agent.link.outgoing import ToBroker
    from dbg_agent.stop.inbox import Inbox
    from dbg_agent.stop.interruptible import Interruptible
    from dbg_agent.stop.stops import Halt, Stops
    from dbg_wire.records.inspection import BreakpointState, BreakpointsWish


class UserBreakpoints:
    """The breakpoints of the rank's debuggers; ``changed`` is called when :meth:`update` finds more or fewer.

    ``serve`` makes what serves breakpoints without tracing.
    """

    def __init__(self, changed: Callable[[], None], serve: Callable[[UserBreakpoints], LineBreakpoints]) -> None:
        self._changed = changed
        self._serve = serve
        self.lines: dict[str, list[int]] = {}
        """The lines with breakpoints by file, as bdb keeps them; all debuggers of the rank share them."""
        self._known = 0
        self.wished: LineBreakpoints | None = None
        """What serves the breakpoints without tracing; None before the first question about them."""

    def grant(self, wish: BreakpointsWish) -> Sequence[BreakpointState]:
        """Set and clear what is wished, and return the state of all breakpoints; not in the link's thread."""
        if self.wished is None:
            self.wished = self._serve(self)
        states = self.wished.grant(wish)
        if wish.set or wish.clear:
            self.update()
        return states

    @property
    def are_traced(self) -> bool:
        """Tell whether a thread that runs on must be traced for a breakpoint; in the stopped thread."""
        return bool(self.lines) and (self.wished is None or not self.wished.refresh())

    def chosen_at(self, frame: FrameType, file: str, line: int) -> tuple[bool, Any]:
        """Tell whether breakpoints are served beside bdb, and then, which one stops the traced frame at its line."""
        if self.wished is None:
            return False, None
        return True, self.wished.chosen(frame, file, line)

    def count(self) -> int:
        """Return how many lines have breakpoints; from any thread."""
        return sum(len(lines) for lines in list(self.lines.values()))

    def update(self) -> None:
        """Count the breakpoints, and call ``changed`` if their number differs; in the stopped thread.

        A debugger's screen or prompt calls this after each key or command, and the stop when a debugger was left.
        """
        if self.wished is not None:
            self.wished.refresh()
        if (known := self.count()) != self._known:
            self._known = known
            self._changed()


class Tracing(Protocol):
    """The debuggers of the rank, between which the tracing passes."""

    def hand_over(self, tracing: object, frame: FrameType, follow: Any) -> Any:
        """Return the trace function for this frame after ``tracing``: another debugger may be open by now."""

    def show_in_pdb(self, why: str) -> None:
        """Show the current stop in pdb from here on, with the reason as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """What a debugger works with. ``kill`` ends the process; ``is_launched``: whether a launcher then ends others."""

    broker: ToBroker
    stops: Stops
    inbox: Inbox
    interruptible: Interruptible
    halt: Halt
    breakpoints: UserBreakpoints
    terminal: Terminal
    console: Console
    thread: StoppedThread
    tracing: Tracing
    is_launched: Callable[[], bool]
    kill: Callable[[], None]
