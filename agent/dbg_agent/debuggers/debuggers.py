"""The debuggers of a rank, their shared breakpoints, and the choice of the next debugger."""

from __future__ import annotations

import sys
from collections.abc import Callable, MutableMapping
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, Any

from dbg_agent.debuggers.console import Console, StoppedThread, Terminal
from dbg_agent.debuggers.workplace import UserBreakpoints, Workplace
from dbg_agent.stop.stops import StopPhase
from dbg_wire.errors import error_line
from dbg_wire.records.ranks import DEFAULT_ENGINE, PDB, PUDB

if TYPE_CHECKING:
    from dbg_agent.debuggers.engine import Engine
    from dbg_agent.link.outgoing import ToBroker
    from dbg_agent.settings import Settings
    from dbg_agent.stop.inbox import Inbox
    from dbg_agent.stop.interruptible import Interruptible
    from dbg_agent.stop.stops import Halt, Stops

ENGINES = {PDB: "dbg_agent.debuggers.pdb", PUDB: "dbg_agent.debuggers.pudb_import"}
"""The module of each debugger; its ``build`` returns the :class:`Engine` of a rank. A module is imported when its
debugger is first opened."""


class Debuggers:
    """The debuggers of a rank, each loaded when it is first opened; the latest to be opened takes over the tracing."""

    def __init__(
        self,
        settings: Settings,
        *,
        broker: ToBroker,
        stops: Stops,
        inbox: Inbox,
        interruptible: Interruptible,
        halt: Halt,
        breakpoints: UserBreakpoints,
        thread: StoppedThread,
        put_output: Callable[[bytes], object],
        is_launched: Callable[[], bool],
        kill: Callable[[], None],
    ) -> None:
        self._preferred_by_rank = settings.engine
        self._broker = broker
        self._stops = stops
        self._breakpoints = breakpoints
        self.terminal = Terminal(put_output)
        self.console = Console(
            self.terminal,
            broker=broker,
            stops=stops,
            inbox=inbox,
            interruptible=interruptible,
            breakpoints=breakpoints,
            thread=thread,
        )
        self.reads_rc = settings.rc
        """Whether pdb reads the ``.pdbrc`` files of the rank's host."""
        self.workplace = Workplace(
            broker=broker,
            stops=stops,
            inbox=inbox,
            interruptible=interruptible,
            halt=halt,
            breakpoints=breakpoints,
            terminal=self.terminal,
            console=self.console,
            thread=thread,
            tracing=self,
            is_launched=is_launched,
            kill=kill,
        )
        self._loaded: dict[str, Engine] = {}
        self.last: Engine | None = None
        """The debugger that was opened most recently."""
        self._preferred_by_stop: str | None = None
        self._why_pdb = ""
        """The reason why the current stop must be shown in pdb; empty if any debugger may show it."""

    def has_commands(self, number: int) -> bool:
        """Return True if the user has given commands to the breakpoint of this number."""
        return any(getattr(one, "commands", {}).get(number) for one in self._loaded.values())

    def preferred(self) -> str:
        """Return the debugger to open: the terminal's choice, else the stop's, else that of this process's settings."""
        if self._why_pdb:
            return PDB
        terminal = self.terminal
        chosen = terminal.engine or self._preferred_by_stop or self._preferred_by_rank or terminal.fallback_engine
        return chosen or DEFAULT_ENGINE

    @property
    def open_one(self) -> Engine | None:
        """The debugger that is open on the current stop, or None."""
        return self.last if self._stops.phase is StopPhase.OPEN else None

    # ------------------------------------------------------------------------------------------ in the stopped thread

    def stop_begins(self, engine: str | None) -> None:
        """Record the debugger that the code of the stop requests, if any."""
        self._preferred_by_stop = engine

    def stop_ends(self) -> None:
        """Forget why the current stop had to be shown in pdb."""
        self._why_pdb = ""

    def locals_of(self, frame: FrameType) -> MutableMapping[str, Any] | None:
        """Return the locals that the open debugger keeps for the frame it shows; None for any other frame.

        Before Python 3.13 assignments at its prompt exist only in these locals, and a new read of ``f_locals`` undoes
        them.
        """
        is_open = self._stops.phase is StopPhase.OPEN
        from dbg_agent.frames.variables import WRITES_THROUGH  # imported here: only a stop needs it

        if WRITES_THROUGH or not is_open or getattr(self.last, "curframe", None) is not frame:
            return None
        known: MutableMapping[str, Any] | None = getattr(self.last, "curframe_locals", None)
        return known

    def show_in_pdb(self, why: str) -> None:
        """Show the current stop in pdb from now on; ``why`` is a sentence with the reason."""
        self._why_pdb = why
        self._broker.warn(why)

    def breakpoints_changed(self) -> None:
        """Draw the breakpoints in the open debugger, if any; runs in the stopped thread."""
        if self.open_one is not None:
            self.open_one.show_breakpoints()

    def have_one(self) -> None:
        """Load a debugger if none is loaded. Breakpoints that were set earlier may need a debugger that traces them."""
        if self.last is None:
            self.last = self._load(self.preferred())

    def open(self, name: str) -> Engine | None:
        """Open a debugger and a session for it; if it can't be loaded, return None after a message to all terminals."""
        session = self._stops.open_session(name, self.terminal.rows, self.terminal.columns)
        self.terminal.start(session.number)
        engine = self._load(name)
        if engine is None:
            self._stops.close_session()
            return None
        self.last = engine
        engine.redraw()
        if self._why_pdb:
            self.console.write(f"{self._why_pdb}\n")
        return engine

    def _load(self, name: str) -> Engine | None:
        """Return the debugger of that name, imported at its first use; if that fails, return None after a message."""
        if name not in self._loaded:
            try:
                module = import_module(ENGINES.get(name, ENGINES[PUDB]))
                self._loaded[name] = module.build(self.workplace, readrc=self.reads_rc)
            except Exception as error:
                # An import in a training environment may raise any error.
                problem = f"{name} can't be opened in this rank ({error_line(error)})"
                self._broker.warn(problem)
                self.terminal.write(f"\x1b[2J\x1b[H{problem}".encode())
                return None
        return self._loaded[name]

    def is_log_watched(self, name: str) -> bool:
        """Return True if the debugger of that name was opened most recently, and a terminal shows its log."""
        before, last = self._stops.session_before, self.last
        is_same = last is not None and last.name == name and before is not None and before.engine == name
        return is_same and self.terminal.viewers > 0

    # -------------------------------------------------------------------------------------------- in a traced thread

    def hand_over(self, tracing: object, frame: FrameType, follow: Any) -> Any:
        """Return the trace function for a frame that ``tracing`` has traced; another debugger may be open now."""
        engine = self.last
        if engine is None:
            return follow
        if engine.going_on and not self._breakpoints.are_traced:
            # Nothing needs tracing now. This thread may still be traced for a step that was abandoned.
            sys.settrace(None)
            return None
        if engine is tracing:
            return follow
        follow = engine.adopt_stack(frame)
        sys.settrace(follow)
        return follow

    def tracer(self, frame: FrameType | None, before: Any) -> Any:
        """Return the new trace function of the calling thread from this frame on; ``before`` is the present one."""
        engine = self.last
        if engine is None:
            return before
        if frame is None or (engine.going_on and not self._breakpoints.are_traced):
            ours = {id(one) for one in self._loaded.values()}
            return None if id(getattr(before, "__self__", None)) in ours else before
        is_traced: bool = not engine.going_on and getattr(frame.f_trace, "__self__", None) is engine
        # If pdb has already set up tracing by itself, its choice of traced frames and instructions is kept.
        return engine.trace_dispatch if is_traced else engine.adopt_stack(frame)
