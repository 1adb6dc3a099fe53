"""The way of a stop: stop a thread of the program, do in it the work that is asked for, and let it go on."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from dbg_agent.frames.loaded_sources import edited_files, source_message
from dbg_agent.frames.stacks import DEBUGGER_FRAMES, is_own, lacks_room, outward, place_of
from dbg_agent.process.stderr import say
from dbg_agent.rank.position import Position, Viewpoint
from dbg_agent.stop.inbox import (
    GoOn,
    LeaveDebugger,
    Move,
    MoveOn,
    OpenDebugger,
    RunJob,
    Switch,
    SwitchDebugger,
    WayOut,
    Work,
)
from dbg_agent.stop.stops import HELD, SLOW_STEP_SECONDS, Crash, StopPhase
from dbg_wire.errors import printable
from dbg_wire.messages import Applied, Message, Notice
from dbg_wire.records.ranks import LINE_ENGINE
from dbg_wire.records.record import fitted

if TYPE_CHECKING:
    from dbg_agent.debuggers.engine import Engine
    from dbg_agent.rank.rank import Rank

BEFORE_LINE = "before line"
"""Takes the place of an engine's name if no trace function has stopped, but the program itself before its line."""


class Stopping:
    """The one stop of a rank from its begin to its end; methods run in the thread that stops."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self.frame: FrameType | None = None
        """The frame in which the stopped thread is halted; None while it runs."""
        self.crash: Crash | None = None
        """The crash for which the current stop keeps this rank, if any."""
        self.view = Viewpoint(self)
        self.position = Position(rank)
        self.is_interrupted = False
        """Whether Ctrl-C was pressed during an unreported stop; the program's next line is interrupted then."""
        self.stepped_to: tuple[int, int] | None = None
        """Frame id and line of the tracing's last halt: a stop point of that line must not stop there once more."""
        self.awaits_in: int | None = None
        """The thread whose code awaits what the user types as ``await …`` at the prompt of its stop."""
        self.awaitable: Awaitable[object] | None = None
        """The awaitable that was typed last."""
        self._told_changed: set[str] = set()
        """Changed files of which the user was told in this stop."""
        self._sites: list[str] = []
        """The sites at which other ranks are held for the current stop."""

    def stop(
        self,
        frame: FrameType,
        reason: str,
        engine_wanted: str | None = None,
        *,
        site: str | None = None,
        lease: float | None = None,
        detail: str = "",
        crash: Crash | None = None,
        before_line: bool = False,
    ) -> None:
        """Stop the calling thread at this frame until it is let go, in this engine unless a terminal wants another.

        With a ``site`` this rank was chosen to stop there, and others are held. With a ``lease`` the rank goes on by
        itself after so many seconds in which no terminal attached. With a ``crash`` it is kept where the exception was
        raised. With ``before_line`` the frame's line is still to run, so that debuggers show it and not the next one.
        """
        tracer = sys.gettrace()
        # The tracing ends first: a step onto the stop would go on into the calls below.
        sys.settrace(None)
        local_tracers = [(one, one.f_trace) for one in outward(frame)] if tracer is not None else []
        if self._is_ignored(frame, site):
            sys.settrace(tracer)
            return
        # Python resumes the wait that a break-in has interrupted, so a debugger must not run to the next line first.
        shown_as = BEFORE_LINE if before_line or reason == "interrupt" else None
        engine = self._rank.debuggers.last
        if site is not None:
            self._rank.holding.counts.arrive(site)
        try:
            if self._rank.stops.is_mine() and engine is not None:
                if site is not None:
                    self._sites.append(site)
                self._halt(frame, reason)
                self._show_or_serve(engine, frame, shown_as, None)
            else:
                self._arrive(frame, reason, engine_wanted, detail, site, crash=crash, lease=lease)
                self._serve(frame, shown_as, None)
        finally:
            # After a crash only the frames that catch the exception still run.
            self._trace_again(frame if crash is None else _program_frame(), tracer, local_tracers)

    def _is_ignored(self, frame: FrameType, site: str | None) -> bool:
        """Tell whether the thread goes on at once: it is stopped or too deep already, or the stop is switched off."""
        stops, engine = self._rank.stops, self._rank.debuggers.last
        if stops.is_mine() and stops.phase is not StopPhase.STEPPING:
            # A stop within an expression that was typed into the open debugger could never end.
            return True
        is_off = (engine is not None and engine.ignores(frame)) or lacks_room(self._too_deep, DEBUGGER_FRAMES)
        if is_off and site is not None:
            self._pass_by(site)
        return is_off

    def _too_deep(self, error: Exception) -> None:
        self._rank.warn(f"a stop is passed by ({error}); going on")

    def _trace_again(self, frame: FrameType | None, tracer: Any, local_tracers: list[tuple[FrameType, Any]]) -> None:
        """Trace the thread on for a debugger from this frame on, or for the program as it was traced before."""
        now = self._rank.debuggers.tracer(frame, tracer)
        if now is tracer:
            # bdb removes the local trace functions of all frames when it lets go. These are the program's own.
            for traced, local_tracer in local_tracers:
                traced.f_trace = local_tracer
        sys.settrace(now)

    def traced_thread_halts(
        self, name: str, frame: FrameType, interact: Callable[[], WayOut], *, goes_on: bool = False
    ) -> None:
        """Halt where a step ends or a breakpoint is; the trace function of the engine of that name calls this.

        With ``goes_on`` the breakpoint has commands that let the thread go on. For terminals the rank then runs on, and
        the commands' output belongs to the session before.
        """
        stops, engine = self._rank.stops, self._rank.debuggers.last
        if stops.is_mine() and stops.is_halted:
            # The interpreter runs a finalizer or handler of the program during our own work, and a breakpoint is in it.
            # The stop can't halt a second time, and a debugger that fails would end it.
            return
        if lacks_room(self._too_deep, DEBUGGER_FRAMES):
            return
        self.note_halt(frame)
        reason = "interrupt" if engine is not None and engine.breaks_in else "breakpoint"
        if stops.is_mine() and engine is not None:
            self._halt(frame, reason)
            self._show_or_serve(engine, frame, name, interact)
        elif goes_on and engine is not None and self._rank.debuggers.is_log_watched(name):
            stops.arrive(frame, "breakpoint", is_unreported=True)
            self.frame = frame
            self._show_or_serve(engine, frame, name, interact)
        else:
            self._arrive(frame, reason, name)
            self._serve(frame, name, interact)

    def take_awaitable(self) -> Awaitable[object] | None:
        """Return, once, what the user has typed as ``await …``."""
        typed, self.awaitable = self.awaitable, None
        return typed

    def uncaught(self) -> BaseException | None:
        """Return the exception of a crash at which the rank is kept; None for any other stop."""
        return self.crash.error if self.crash is not None else None

    def note_halt(self, frame: FrameType) -> None:
        """Note that a step or a breakpoint has halted this frame at its present line."""
        self.stepped_to = (id(frame), frame.f_lineno)

    def has_just_halted(self, frame: FrameType) -> bool:
        """Tell, once for each halt, whether a step or a breakpoint has just halted this frame at its present line."""
        if self.stepped_to != (id(frame), frame.f_lineno):
            return False
        self.stepped_to = None
        return True

    def start_reporting(self) -> None:
        """Report the calling thread's stop if it was not reported so far, since it waits for a user now."""
        stops = self._rank.stops
        if stops.is_unreported and stops.is_mine() and self.frame is not None:
            stops.start_reporting()
            self._begin(self.frame, "breakpoint", stops.engine, "")

    def looked_at(self) -> FrameType | None:
        """Return the frame that the open debugger shows, or else the one that it would show first."""
        engine = self.open_engine()
        shown: FrameType | None = getattr(engine, "curframe", None)
        return shown or self.view.opening or self.frame

    def open_engine(self) -> Engine | None:
        """Return the debugger that is open on this stop."""
        return self._rank.debuggers.last if self._rank.stops.phase is StopPhase.OPEN else None

    def send(self, message: Message) -> None:
        """Have a message sent."""
        self._rank.send(message)

    def show_source(self, frame: FrameType | None) -> None:
        """Send the lines around this frame's line, for terminals that may not have the file."""
        if frame is not None and self._rank.debuggers.terminal.viewers:
            self._rank.send(source_message(frame, self._rank.breakpoints.lines))

    def show_source_again(self) -> None:
        """Send the lines around the line debugger's frame once more, for a terminal that has just attached."""
        if self._rank.stops.engine == LINE_ENGINE:
            self.show_source(self.looked_at())

    def carry_out(self, work: Work | None) -> None:
        """Run a job of the inbox within the open debugger, or unwind the debugger by what is raised."""
        if isinstance(work, GoOn):
            raise LeaveDebugger(work.done)
        if isinstance(work, Move):
            work.begun()
            raise MoveOn(work.wanted, self.looked_at())
        if isinstance(work, Switch):
            raise SwitchDebugger
        if isinstance(work, RunJob):
            work.job()

    def acknowledge_keys(self, count: int) -> None:
        """Acknowledge that the debugger took this many bytes."""
        generation, offset = self._rank.inbox.consume_keys(count)
        self._rank.send(fitted(Applied, generation=generation, offset=offset))

    # ---------------------------------------------------------------------------------------------------- a stop begins

    def _arrive(
        self,
        frame: FrameType,
        reason: str,
        engine_wanted: str | None = None,
        detail: str = "",
        site: str | None = None,
        *,
        crash: Crash | None = None,
        lease: float | None = None,
    ) -> None:
        """Wait for this thread's turn to stop, and begin the stop; an exception that comes out has ended it."""
        if reason != HELD:
            # The stop that was passed before is of no interest any more.
            self._rank.program.passed = ""
        try:
            self._rank.membership.note_stop()
            self._rank.stops.arrive(frame, reason, detail)
        except BaseException:
            if site is not None:
                self._rank.holding.counts.complete(site)
                self._rank.publish()
            raise
        try:
            # The sites are set only when it is this thread's turn: until then they are those of the stop before.
            self._sites = [site] if site is not None else []
            self.crash = crash
            self._begin(frame, reason, engine_wanted, detail, lease)
        except BaseException:
            self.end()
            raise

    def _begin(
        self, frame: FrameType, reason: str, engine_wanted: str | None, detail: str, lease: float | None = None
    ) -> None:
        rank = self._rank
        deadline = rank.limits.begin(reason, detail, lease)
        self.frame = frame
        self.view.begin(reason)
        rank.debuggers.stop_begins(engine_wanted)
        rank.break_in.arrived()
        if reason == HELD:
            rank.holding.begun()
        elif rank.debuggers.terminal.viewers:
            rank.inbox.put(rank.stops.number, OpenDebugger(rank.debuggers.wanted()))
        else:
            where = place_of(frame)
            hint = f"`dbg-attach {rank.address}` opens it"
            say("; ".join(filter(None, (f"{rank.address} stopped at {where.file}:{where.line}", hint, deadline))))
        if reason != HELD:
            rank.inbox.put(rank.stops.number, RunJob(partial(rank.questions.prepare, rank.link.fork_safety)))

    def _halt(self, frame: FrameType, reason: str) -> None:
        """Note that a step has ended here, or was broken off for this reason."""
        self.frame = frame
        self.view.begin(reason)
        self._rank.stops.halt(frame)
        self._rank.limits.lease.use()
        self._rank.break_in.arrived()
        where = place_of(frame)
        self._rank.questions.moved(f"{where.file}:{where.line} {where.function}")

    # ------------------------------------------------------------------------------------------------------ while it is

    def _show_or_serve(
        self, engine: Engine, frame: FrameType, traced_by: str | None, interact: Callable[[], WayOut] | None
    ) -> None:
        """Interact in this debugger and, if another one is to be opened then, do the inbox's work."""
        if not self._show(engine, frame, traced_by, interact):
            self._serve(frame, traced_by, interact)

    def _serve(self, frame: FrameType, traced_by: str | None, interact: Callable[[], WayOut] | None) -> None:
        """Do the inbox's work until the stop ends or a step begins."""
        rank = self._rank
        try:
            while True:
                work = rank.inbox.next_work(rank.stops.number)
                if isinstance(work, GoOn):
                    if rank.breakpoints.are_traced:
                        # One may have been set while the rank ran, or by a question.
                        rank.debuggers.have_one()
                    if rank.debuggers.last is not None:
                        # A debugger of an earlier stop may still trace for breakpoints, even if none is open now.
                        rank.debuggers.last.go_on(frame)
                    self.end()
                    work.done()
                    return
                if isinstance(work, RunJob):
                    work.job()
                elif isinstance(work, Move):
                    work.begun()
                    rank.questions.cant_move()
                elif isinstance(work, OpenDebugger):
                    engine = rank.debuggers.open(work.engine)
                    if engine is not None and self._show(engine, frame, traced_by, interact):
                        return
        except BaseException:
            self.end()
            raise

    def _show(
        self, engine: Engine, frame: FrameType, traced_by: str | None, interact: Callable[[], WayOut] | None
    ) -> bool:
        """Interact in the open debugger; return False if another one is to be opened on the same stop.

        If a trace function stopped here, ``traced_by`` is the name of its engine, and ``interact`` shows that engine.
        """
        rank = self._rank
        self._show_what_runs(engine, frame)
        try:
            if self.crash is not None:
                way = engine.show_crash(self.crash.error)
            elif interact is not None and engine.name == traced_by:
                way = interact()
            else:
                way = engine.interact(frame, traced_by is not None)
        except BaseException:
            self.end()
            raise
        if not engine.has_let_go:
            rank.breakpoints.update()
        if way is WayOut.SWITCH:
            rank.report_loss(rank.inbox.close(rank.stops.close_session, "another debugger was opened"))
            rank.inbox.put(rank.stops.number, OpenDebugger(rank.debuggers.wanted()))
            return False
        if self.crash is not None:
            engine.go_on(frame)
        if way is WayOut.GO_ON or self.crash is not None:
            self.end()
            return True
        self.start_reporting()
        # Values that were only shown must not live on in a step, which may run for long.
        rank.questions.forget()
        self.frame = None
        self.view.end()
        step = rank.stops.step()
        rank.call_later(SLOW_STEP_SECONDS, lambda: rank.stops.step_is_slow(step))
        return True

    def _show_what_runs(self, engine: Engine, frame: FrameType) -> None:
        """Make the debugger say in which frame it opens, and which files have changed since they were loaded."""
        traceback = self.crash.error.__traceback__ if self.crash is not None else None
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        if place := self.view.sentence():
            engine.note(printable(place))
        for path in edited_files(frame if traceback is None else traceback.tb_frame):
            if path not in self._told_changed:
                self._told_changed.add(path)
                text = f"{printable(path)} has changed since it was loaded; its lines are not those that run"
                engine.note(text)
                self._rank.send(fitted(Notice, text=text))

    # ------------------------------------------------------------------------------------------------------ a stop ends

    def end(self) -> None:
        """End the current stop, if it is not over."""
        rank = self._rank
        # A finalizer of a value runs while the stop is still this thread's.
        rank.questions.forget()
        self.frame = self.crash = None
        self.view.end()
        rank.debuggers.stop_ends()
        self._told_changed.clear()
        if rank.stops.is_unreported:
            self._end_pass()
            return
        self._complete_sites()
        rank.limits.end()
        rank.report_loss(rank.inbox.end(rank.stops.number, rank.stops.end, "the stop ended"))
        rank.questions.moved("running")

    def _end_pass(self) -> None:
        """End an unreported stop; report if it has removed the last breakpoint, a temporary one."""
        rank = self._rank
        rank.report_loss(rank.inbox.end(rank.stops.number, rank.stops.end, "the stop ended"))
        if not rank.breakpoints.lines:
            rank.publish()
        interrupted, self.is_interrupted = self.is_interrupted, False
        if interrupted and rank.debuggers.last is not None:
            rank.debuggers.last.break_in()

    def end_step(self) -> None:
        """End the stop of the calling thread if it steps: the code that it steps through is over."""
        if self._rank.stops.is_mine() and self._rank.stops.phase is StopPhase.STEPPING:
            self.end()

    def let_others_go(self) -> None:
        """Count the current stop as over for the ranks that are held for it, while it stays."""
        if self._rank.stops.is_mine():
            self._complete_sites()
            self._rank.publish()

    def _pass_by(self, site: str) -> None:
        """Count a stop that the user has switched off as over: other ranks would wait there for it."""
        self._rank.holding.counts.arrive(site)
        self._rank.holding.counts.complete(site)
        self._rank.publish()

    def _complete_sites(self) -> None:
        sites, self._sites = self._sites, []
        for site in sites:
            self._rank.holding.counts.complete(site)


def _program_frame() -> FrameType | None:
    """Return the innermost frame of the calling thread that is not ours; None in the interpreter's own hooks."""
    return next((frame for frame in outward(sys._getframe()) if not is_own(frame)), None)
