"""The environment of a rank's debuggers: their shared breakpoints, and the parts of the rank that they use."""

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
    from dbg_wire.records.inspection import BreakpointChanges, BreakpointState


class UserBreakpoints:
    """The breakpoints of the rank's debuggers.

    :meth:`update` calls ``changed`` if there are more or fewer breakpoints than before. ``serve`` makes the
    :class:`LineBreakpoints` that stop a thread without tracing it.
    """

    def __init__(self, changed: Callable[[], None], serve: Callable[[UserBreakpoints], LineBreakpoints]) -> None:
        self._changed = changed
        self._serve = serve
        self.lines: dict[str, list[int]] = {}
        """The lines with breakpoints by file, as bdb keeps them; all debuggers of the rank share them."""
        self._known = 0
        self.served: LineBreakpoints | None = None
        """The object that makes breakpoints work without tracing; None before the first question about breakpoints."""

    def apply(self, spec: BreakpointChanges) -> Sequence[BreakpointState]:
        """Set and clear the requested breakpoints, and return the state of all; not in the link's thread."""
        if self.served is None:
            self.served = self._serve(self)
        states = self.served.apply(spec)
        if spec.set or spec.clear:
            self.update()
        return states

    @property
    def are_traced(self) -> bool:
        """Whether a running thread must be traced for a breakpoint; to be read in the stopped thread."""
        return bool(self.lines) and (self.served is None or not self.served.refresh())

    def chosen_at(self, frame: FrameType, file: str, line: int) -> tuple[bool, Any]:
        """Return True, and :attr:`served`'s choice or None. Return False and None if bdb must choose the breakpoint."""
        if self.served is None:
            return False, None
        return True, self.served.chosen(frame, file, line)

    def count(self) -> int:
        """Return the number of lines with breakpoints; may be called from any thread."""
        return sum(len(lines) for lines in list(self.lines.values()))

    def update(self) -> None:
        """Count the breakpoints, and call ``changed`` if their number differs; runs in the stopped thread.

        A debugger's screen or prompt calls this after each key or command; the stop calls it when a debugger was left.
        """
        if self.served is not None:
            self.served.refresh()
        if (known := self.count()) != self._known:
            self._known = known
            self._changed()


class Tracing(Protocol):
    """The debuggers of the rank; the latest to be opened takes over the tracing."""

    def hand_over(self, tracing: object, frame: FrameType, follow: Any) -> Any:
        """Return the trace function for a frame that ``tracing`` has traced; another debugger may be open now."""

    def show_in_pdb(self, why: str) -> None:
        """Show the current stop in pdb from now on; ``why`` is a sentence with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """The environment of a debugger.

    ``kill`` ends the process; ``is_launched`` returns True if a launcher then ends other ranks.
    """

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
