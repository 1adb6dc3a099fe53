"""Lifecycle of a stop: stops a thread of the program, does requested work in it, and resumes it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from dbg_agent.frames.stacks import DEBUGGER_FRAMES, is_own, outward, place_of, reports_no_room
from dbg_agent.launch.claim import has_claimed
from dbg_agent.launch.this_process import claim
from dbg_agent.process.log import write_stderr
from dbg_agent.stop.inbox import (
    DebuggerExit,
    ExitDebugger,
    Move,
    MoveThread,
    OpenDebugger,
    ResumeThread,
    RunJob,
    Switch,
    SwitchDebugger,
    Work,
)
from dbg_agent.stop.stops import HELD, SLOW_STEP_SECONDS, Crash, StopPhase
from dbg_wire.errors import printable
from dbg_wire.messages import Applied, Notice
from dbg_wire.records.record import clamp

if TYPE_CHECKING:
    from dbg_agent.debuggers.debuggers import Debuggers
    from dbg_agent.debuggers.engine import Engine
    from dbg_agent.debuggers.position import FrameSelector
    from dbg_agent.link.fork_safety import ForkSafety
    from dbg_agent.link.outgoing import ProgramState, ToBroker
    from dbg_agent.questions.break_in import BreakIn
    from dbg_agent.questions.questions import Questions
    from dbg_agent.rank.holding import Holding
    from dbg_agent.rank.membership import Membership
    from dbg_agent.rank.stop_limits import StopLimits
    from dbg_agent.stop.inbox import Inbox
    from dbg_agent.stop.stops import Halt, Stops

BEFORE_LINE = "before line"
"""Used instead of an engine's name if the line of the stop has not run yet, but no trace function has stopped the
thread."""


class Stopping:
    """The one stop of a rank, from its beginning to its end. The methods run in the stopping thread."""

    def __init__(self, broker: ToBroker, stops: Stops, inbox: Inbox, halt: Halt) -> None:
        self._broker = broker
        self._stops = stops
        self._inbox = inbox
        self._halt = halt
        self._changed_files: set[str] = set()
        """Changed source files about which the user has already been informed in this stop."""
        self._about = ""
        """A sentence about the current stop, which debuggers show."""
        self._sites: list[str] = []
        """The sites where other ranks are held for the current stop."""

    def start(
        self,
        *,
        program: ProgramState,
        membership: Membership,
        reconnect: Callable[[], None],
        fork_safety: ForkSafety,
        view: FrameSelector,
        debuggers: Debuggers,
        break_in: BreakIn,
        questions: Questions,
        holding: Holding,
        limits: StopLimits,
    ) -> None:
        """Set the other parts of the rank before the first stop. Most of them need this object at their creation."""
        self._program = program
        self._membership = membership
        self._reconnect = reconnect
        self._fork_safety = fork_safety
        self._view = view
        self._debuggers = debuggers
        self._break_in = break_in
        self._questions = questions
        self._holding = holding
        self._limits = limits

    def stop(
        self,
        frame: FrameType,
        reason: str,
        engine_wanted: str | None = None,
        *,
        site: str | None = None,
        lease: float | None = None,
        crash: Crash | None = None,
        before_line: bool = False,
        about: str = "",
    ) -> None:
        """Stop the calling thread at this frame until it is resumed.

        The debugger is ``engine_wanted`` unless a terminal requests another engine. With a ``site`` this rank was
        chosen to stop there, and others are held. With a ``lease``, in seconds, the rank continues by itself if no
        terminal attaches in this time. With a ``crash`` the rank is kept where the exception was raised. With
        ``before_line`` the frame's line has not run yet, so debuggers show this line and not the next one. ``about``
        is a sentence about the stop, for lists of ranks.
        """
        tracer = sys.gettrace()
        # The tracing ends first. Otherwise a debugger whose step has led to this call would step through the calls
        # below, too.
        sys.settrace(None)
        local_tracers = [(one, one.f_trace) for one in outward(frame)] if tracer is not None else []
        if self._is_ignored(frame, site):
            sys.settrace(tracer)
            return
        # After a break-in, Python resumes the interrupted system call. The call may wait for long, so a debugger must
        # open now, and not at the next line.
        shown_as = BEFORE_LINE if before_line or reason == "interrupt" else None
        engine = self._debuggers.last
        if site is not None:
            self._holding.counts.arrive(site)
        try:
            if self._stops.is_mine() and engine is not None:
                if site is not None:
                    self._sites.append(site)
                self._note_halt(frame, reason)
                self._show_or_serve(engine, frame, shown_as, None)
            else:
                self._arrive(frame, reason, engine_wanted, site, crash=crash, lease=lease, about=about)
                self._serve(frame, shown_as, None)
        finally:
            # After a crash, the frames that raised the exception don't run any more, so tracing starts at the frame
            # that handles it.
            self._trace_again(frame if crash is None else _program_frame(), tracer, local_tracers)

    def _is_ignored(self, frame: FrameType, site: str | None) -> bool:
        """Return True if the thread must not stop.

        It is already stopped, or its stack has no room for a debugger, or the user has switched this stop off.
        """
        stops, engine = self._stops, self._debuggers.last
        if stops.is_mine() and stops.phase is not StopPhase.STEPPING:
            # A stop inside an expression that was typed into the open debugger could never end.
            return True
        is_off = (engine is not None and engine.ignores(frame)) or reports_no_room(self._too_deep, DEBUGGER_FRAMES)
        if is_off and site is not None:
            self._skip_site(site)
        return is_off

    def _too_deep(self, error: Exception) -> None:
        self._broker.warn(f"a stop is skipped ({error}); continuing")

    def _trace_again(self, frame: FrameType | None, tracer: Any, local_tracers: list[tuple[FrameType, Any]]) -> None:
        """Start tracing at this frame, for a debugger that needs it, or as the program was traced before the stop."""
        now = self._debuggers.tracer(frame, tracer)
        if now is tracer:
            # When a debugger resumes the thread, bdb removes the local trace functions of all frames. The ones restored
            # here are the program's own.
            for traced, local_tracer in local_tracers:
                traced.f_trace = local_tracer
        sys.settrace(now)

    def traced_thread_halts(
        self, name: str, frame: FrameType, interact: Callable[[], DebuggerExit], *, resumes: bool = False
    ) -> None:
        """Halt at the end of a step or at a breakpoint. The trace function of the engine ``name`` calls it.

        With ``resumes`` the breakpoint has commands, and one of them resumes the thread. Terminals then see the rank as
        running, and the commands' output is added to the previous session's output.
        """
        stops, engine = self._stops, self._debuggers.last
        if stops.is_mine() and stops.is_halted:
            # The breakpoint is in a finalizer or signal handler of the program, which runs while the stopped thread
            # does work of the agent. The stop can't halt a second time: the nested debugger would fail and end the
            # stop.
            return
        if reports_no_room(self._too_deep, DEBUGGER_FRAMES):
            return
        self._halt.note(frame)
        reason = "interrupt" if engine is not None and engine.breaks_in else "breakpoint"
        if stops.is_mine() and engine is not None:
            self._note_halt(frame, reason)
            self._show_or_serve(engine, frame, name, interact)
        elif resumes and engine is not None and self._debuggers.is_log_watched(name):
            stops.arrive(frame, "breakpoint", is_unreported=True)
            self._halt.frame = frame
            self._show_or_serve(engine, frame, name, interact)
        else:
            self._arrive(frame, reason, name)
            self._serve(frame, name, interact)

    def note_halt(self, frame: FrameType) -> None:
        """Record that the frame has halted at its current line."""
        self._halt.note(frame)

    def has_just_halted(self, frame: FrameType) -> bool:
        """Return True, once per halt, if the frame has just halted at its current line."""
        return self._halt.has_just_halted(frame)

    def start_reporting(self) -> None:
        """Report the calling thread's stop if it has not been reported, because it now waits for a user."""
        stops = self._stops
        if stops.is_unreported and stops.is_mine() and self._halt.frame is not None:
            stops.start_reporting()
            self._start(self._halt.frame, "breakpoint", stops.engine)

    def carry_out(self, work: Work | None) -> None:
        """Do work from the inbox while a debugger is open, or raise an exception that leaves the debugger."""
        if isinstance(work, ResumeThread):
            raise ExitDebugger(work.done)
        if isinstance(work, Move):
            work.begun()
            raise MoveThread(work.request, self._view.looked_at())
        if isinstance(work, Switch):
            raise SwitchDebugger
        if isinstance(work, RunJob):
            work.job()

    def acknowledge_keys(self, count: int) -> None:
        """Acknowledge that the debugger has read ``count`` bytes of input."""
        generation, offset = self._inbox.consume_keys(count)
        self._broker.send(clamp(Applied, generation=generation, offset=offset))

    # ---------------------------------------------------------------------------------------------------- a stop begins

    def _arrive(
        self,
        frame: FrameType,
        reason: str,
        engine_wanted: str | None = None,
        site: str | None = None,
        *,
        crash: Crash | None = None,
        lease: float | None = None,
        about: str = "",
    ) -> None:
        """Wait for this thread's turn to stop, and begin the stop. If this raises, the stop has ended."""
        if reason != HELD:
            # The list of ranks no longer needs to show a stop that this rank has skipped earlier.
            self._program.passed = ""
        try:
            if self._membership.has_moved():
                self._reconnect()
            if has_claimed():
                claim()
            self._stops.arrive(frame, reason, crash.text if crash is not None else about)
            self._about = about
        except BaseException:
            if site is not None:
                self._holding.counts.complete(site)
                self._broker.publish()
            raise
        try:
            # Set the sites only when it is this thread's turn, because until then they belong to the previous stop.
            self._sites = [site] if site is not None else []
            self._halt.crash = crash
            self._start(frame, reason, engine_wanted, lease)
        except BaseException:
            self.end()
            raise

    def _start(self, frame: FrameType, reason: str, engine_wanted: str | None, lease: float | None = None) -> None:
        limit = self._limits.start(reason, lease)
        self._halt.frame = frame
        self._view.start(reason)
        self._debuggers.stop_begins(engine_wanted)
        self._break_in.arrived()
        if reason == HELD:
            self._holding.begun()
        elif self._debuggers.terminal.viewers:
            self._inbox.put(self._stops.number, OpenDebugger(self._debuggers.preferred()))
        else:
            where = place_of(frame)
            address = self._broker.address
            message = f"{address} stopped at {where.file}:{where.line}", f"`dbg-attach {address}` opens it"
            write_stderr("; ".join(message if limit is None else (*message, limit.text)))
        if reason != HELD:
            self._inbox.put(self._stops.number, RunJob(partial(self._questions.prepare, self._fork_safety)))

    def _note_halt(self, frame: FrameType, reason: str) -> None:
        """Record that a step of this stop has halted at this frame, for this reason."""
        self._halt.frame = frame
        self._view.start(reason)
        self._stops.halt(frame)
        self._limits.lease.use()
        self._break_in.arrived()
        where = place_of(frame)
        self._questions.moved(f"{where.file}:{where.line} {where.function}")

    # ---------------------------------------------------------------------------------------------------- during a stop

    def _show_or_serve(
        self, engine: Engine, frame: FrameType, traced_by: str | None, interact: Callable[[], DebuggerExit] | None
    ) -> None:
        """Interact in this debugger. If the user switches to another one, do the inbox's work, which opens that one."""
        if not self._show(engine, frame, traced_by, interact):
            self._serve(frame, traced_by, interact)

    def _serve(self, frame: FrameType, traced_by: str | None, interact: Callable[[], DebuggerExit] | None) -> None:
        """Do the inbox's work until the stop ends or a step begins."""
        try:
            while True:
                work = self._inbox.next_work(self._stops.number)
                if isinstance(work, ResumeThread):
                    if self._debuggers.workplace.breakpoints.are_traced:
                        # A question may have set a breakpoint that needs tracing, while no debugger was open. Only a
                        # debugger can trace, so one is created.
                        self._debuggers.have_one()
                    if self._debuggers.last is not None:
                        # Even if no debugger is open, the debugger of an earlier stop may still trace for breakpoints.
                        self._debuggers.last.go_on(frame)
                    self.end()
                    work.done()
                    return
                if isinstance(work, RunJob):
                    work.job()
                elif isinstance(work, Move):
                    work.begun()
                    self._questions.cant_move()
                elif isinstance(work, OpenDebugger):
                    engine = self._debuggers.open(work.engine)
                    if engine is not None and self._show(engine, frame, traced_by, interact):
                        return
        except BaseException:
            self.end()
            raise

    def _show(
        self, engine: Engine, frame: FrameType, traced_by: str | None, interact: Callable[[], DebuggerExit] | None
    ) -> bool:
        """Interact in the open debugger. Return False if another debugger must be opened on the same stop.

        ``traced_by`` is the name of the engine whose trace function stopped here, if one did. ``interact`` then starts
        the interaction in that engine.
        """
        self._show_what_runs(engine, frame)
        try:
            if self._halt.crash is not None:
                way = engine.show_crash(self._halt.crash.error)
            elif interact is not None and engine.name == traced_by:
                way = interact()
            else:
                way = engine.interact(frame, traced_by is not None)
        except BaseException:
            self.end()
            raise
        if not engine.has_let_go:
            self._debuggers.workplace.breakpoints.update()
        if way is DebuggerExit.SWITCH:
            self._broker.report_loss(self._inbox.close(self._stops.close_session, "another debugger was opened"))
            self._inbox.put(self._stops.number, OpenDebugger(self._debuggers.preferred()))
            return False
        if self._halt.crash is not None:
            engine.go_on(frame)
        if way is DebuggerExit.GO_ON or self._halt.crash is not None:
            self.end()
            return True
        self.start_reporting()
        # Values that were only shown must not stay alive during a step, which may run for long.
        self._questions.forget()
        self._halt.frame = None
        self._view.end()
        step = self._stops.step()
        self._broker.call_later(SLOW_STEP_SECONDS, lambda: self._stops.step_is_slow(step))
        return True

    def _show_what_runs(self, engine: Engine, frame: FrameType) -> None:
        """Show in the debugger the frame that it opens in, and the files that have changed since they were loaded."""
        traceback = self._halt.crash.error.__traceback__ if self._halt.crash is not None else None
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        if place := self._view.sentence():
            engine.note(printable(place))
        if self._about:
            engine.note(self._about)
        from dbg_agent.frames.loaded_sources import edited_files  # only a stop needs it

        for path in edited_files(frame if traceback is None else traceback.tb_frame):
            if path not in self._changed_files:
                self._changed_files.add(path)
                text = f"{printable(path)} has changed since it was loaded; the program runs the old lines"
                engine.note(text)
                self._broker.send(clamp(Notice, text=text))

    # ------------------------------------------------------------------------------------------------------ a stop ends

    def end(self) -> None:
        """End the current stop, unless it has already ended."""
        # The values are forgotten first, so that their finalizers run while the stop still belongs to this thread.
        self._questions.forget()
        self._halt.frame = self._halt.crash = None
        self._view.end()
        self._debuggers.stop_ends()
        self._changed_files.clear()
        if self._stops.is_unreported:
            self._end_pass()
            return
        self._complete_sites()
        self._limits.end()
        self._broker.report_loss(self._inbox.end(self._stops.number, self._stops.end, "the stop ended"))
        self._questions.moved("running")

    def _end_pass(self) -> None:
        """End an unreported stop. If no breakpoint remains, because the only one was temporary, send a report."""
        self._broker.report_loss(self._inbox.end(self._stops.number, self._stops.end, "the stop ended"))
        if not self._debuggers.workplace.breakpoints.lines:
            self._broker.publish()
        interrupted, self._halt.is_interrupted = self._halt.is_interrupted, False
        if interrupted and self._debuggers.last is not None:
            self._debuggers.last.break_in()

    def end_step(self) -> None:
        """End the stop of the calling thread if it is stepping, because the stepped code has ended."""
        if self._stops.is_mine() and self._stops.phase is StopPhase.STEPPING:
            self.end()

    def _skip_site(self, site: str) -> None:
        """Count a stop that the user has switched off as completed, because other ranks would otherwise wait for it."""
        self._holding.counts.arrive(site)
        self._holding.counts.complete(site)
        self._broker.publish()

    def _complete_sites(self) -> None:
        sites, self._sites = self._sites, []
        for site in sites:
            self._holding.counts.complete(site)


def _program_frame() -> FrameType | None:
    """Return the calling thread's innermost frame outside the agent, or None in the interpreter's own hooks."""
    return next((frame for frame in outward(sys._getframe()) if not is_own(frame)), None)
