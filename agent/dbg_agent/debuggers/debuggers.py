"""The debuggers of a rank, the breakpoints that they share, and which debugger is opened next."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, MutableMapping
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, Any

from dbg_agent.debuggers.console import Console, Terminal
from dbg_agent.frames.variables import WRITES_THROUGH
from dbg_agent.stop.stops import StopPhase
from dbg_wire.errors import error_line
from dbg_wire.records.ranks import DEFAULT_ENGINE, PDB, PUDB

if TYPE_CHECKING:
    from dbg_agent.breakpoints.line_breakpoints import LineBreakpoints
    from dbg_agent.debuggers.engine import Engine
    from dbg_agent.rank.rank import Rank


class UserBreakpoints:
    """The breakpoints of the rank's debuggers; ``changed`` is called when :meth:`update` finds more or fewer."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.lines: dict[str, list[int]] = {}
        """The lines with breakpoints by file, as bdb keeps them; all debuggers of the rank share them."""
        self._known = 0
        self.wished: LineBreakpoints | None = None
        """What serves the breakpoints without tracing; None before the first question about them."""

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


ENGINES = {PDB: "dbg_agent.debuggers.pdb", PUDB: "dbg_agent.debuggers.pudb_import"}
"""The module of each debugger, whose ``build`` returns the :class:`Engine` of a rank. They know the rank, and not the
other way round; each is imported when it is first opened."""


class Debuggers:
    """The debuggers of a rank, each loaded when it is first opened; they pass the tracing to each other."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self.terminal = Terminal(rank.link.outgoing.put_output)
        self.console = Console(rank, self.terminal)
        self.reads_rc = rank.settings.rc
        """Whether pdb reads the ``.pdbrc`` files of the rank's host."""
        self._loaded: dict[str, Engine] = {}
        self.last: Engine | None = None
        """The debugger that was opened last."""
        self._wanted_by_stop: str | None = None
        self._why_pdb = ""
        """Why the current stop must be shown in pdb; empty if any debugger will do."""

    @property
    def loaded(self) -> tuple[Engine, ...]:
        """Return the debuggers that were opened so far."""
        return tuple(self._loaded.values())

    @property
    def aliases(self) -> Mapping[str, str]:
        """Return the aliases of pdb, if that was opened last."""
        aliases: Mapping[str, str] = getattr(self.last, "aliases", {}) if self.last is not None else {}
        return aliases

    def wanted(self) -> str:
        """Return the debugger to open: that of the terminal, else of the stop, else of this process's settings."""
        if self._why_pdb:
            return PDB
        terminal = self.terminal
        chosen = terminal.engine or self._wanted_by_stop or self._rank.settings.engine or terminal.fallback_engine
        return chosen or DEFAULT_ENGINE

    # ------------------------------------------------------------------------------------------ in the stopped thread

    def stop_begins(self, wanted: str | None) -> None:
        """Note the debugger that the code of the stop asks for, if any."""
        self._wanted_by_stop = wanted

    def stop_ends(self) -> None:
        """Forget why the current stop had to be shown in pdb."""
        self._why_pdb = ""

    def locals_of(self, frame: FrameType) -> MutableMapping[str, Any] | None:
        """Return the locals that the open debugger has of the frame it shows; None for any other frame.

        Before Python 3.13 what was assigned at its prompt is only there, and a new read of ``f_locals`` undoes it.
        """
        is_open = self._rank.stops.phase is StopPhase.OPEN
        if WRITES_THROUGH or not is_open or getattr(self.last, "curframe", None) is not frame:
            return None
        known: MutableMapping[str, Any] | None = getattr(self.last, "curframe_locals", None)
        return known

    def show_in_pdb(self, why: str) -> None:
        """Show the current stop in pdb from here on, with the reason as a sentence."""
        self._why_pdb = why
        self._rank.warn(why)

    def have_one(self) -> None:
        """Load a debugger if there is none, to trace for breakpoints that were set without an open debugger."""
        if self.last is None:
            self.last = self._load(self.wanted())

    def open(self, name: str) -> Engine | None:
        """Open a debugger and a session for it; return None, after a message to all, if it can't be loaded."""
        rank = self._rank
        session = rank.stops.open_session(name, self.terminal.rows, self.terminal.columns)
        self.terminal.begin(session.number)
        engine = self._load(name)
        if engine is None:
            rank.stops.close_session()
            return None
        self.last = engine
        engine.redraw()
        if self._why_pdb:
            self.console.write(f"{self._why_pdb}\n")
        return engine

    def _load(self, name: str) -> Engine | None:
        """Return the debugger of that name, imported at its first use; None, after a message, if that fails."""
        if name not in self._loaded:
            try:
                self._loaded[name] = import_module(ENGINES.get(name, ENGINES[PUDB])).build(self._rank)
            except Exception as error:
                # An import in a training environment may raise any error.
                problem = f"{name} can't be opened in this rank ({error_line(error)})"
                self._rank.warn(problem)
                self.terminal.write(f"\x1b[2J\x1b[H{problem}".encode())
                return None
        return self._loaded[name]

    def is_log_watched(self, name: str) -> bool:
        """Tell whether a terminal looks at the log of the debugger of that name, and no other was opened since."""
        before, last = self._rank.stops.session_before, self.last
        is_same = last is not None and last.name == name and before is not None and before.engine == name
        return is_same and self.terminal.viewers > 0

    # -------------------------------------------------------------------------------------------- in a traced thread

    def hand_over(self, tracing: object, frame: FrameType, follow: Any) -> Any:
        """Return the trace function for this frame after ``tracing``: another debugger may be open by now."""
        engine = self.last
        if engine is None:
            return follow
        if engine.going_on and not self._rank.breakpoints.are_traced:
            # The step of another thread may have been given up.
            sys.settrace(None)
            return None
        if engine is tracing:
            return follow
        follow = engine.adopt_stack(frame)
        sys.settrace(follow)
        return follow

    def tracer(self, frame: FrameType | None, before: Any) -> Any:
        """Return the trace function of the calling thread from this frame on, where ``before`` was it until now."""
        engine = self.last
        if engine is None:
            return before
        if frame is None or (engine.going_on and not self._rank.breakpoints.are_traced):
            ours = {id(one) for one in self._loaded.values()}
            return None if id(getattr(before, "__self__", None)) in ours else before
        is_traced: bool = not engine.going_on and getattr(frame.f_trace, "__self__", None) is engine
        # pdb may have begun to trace by itself, and have chosen the frames and instructions.
        return engine.trace_dispatch if is_traced else engine.adopt_stack(frame)
