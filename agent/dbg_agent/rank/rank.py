"""This process as a rank: its one link, its one current stop, its debugger, and how they meet.

What the broker says comes in by :mod:`dbg_agent.rank.from_broker`.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any

from dbg_wire.errors import DbgError, printable
from dbg_wire.messages import (
    Applied,
    Discarded,
    Goodbye,
    Message,
    Notice,
    RankReport,
    Welcome,
)
from dbg_wire.ranks import Place
from dbg_wire.records import fitted
from dbg_wire.states import StopPhase

from ..autostart import BY_LIBRARY, FRAMEWORK, NO_PLACE, VARIABLE, claim, has_claimed, parent_of
from ..engines.console import Console
from ..launch.this_process import Identity, this_process
from ..link.link import SLOW_STEP_SECONDS, Link
from ..log import Logger, Shown, open_log
from ..settings import Settings
from ..stderr import say
from ..stop.inbox import GoOn, Inbox, Move, OpenDebugger, ProgramRaised, Run
from ..stop.interruptible import Interruptible
from ..stop.loaded_sources import Loaded
from ..stop.source import source_of
from ..stop.stacks import is_own, place_of, stack_of, thread_frame, traceback_of
from ..stop.stops import HELD, Stops
from ..stop.terminal import Terminal
from ..waiting.deadlines import Clocks
from ..waiting.holding import Waits
from ..waiting.lease import Lease
from .break_in import BreakIn
from .busy import Busy
from .from_broker import Desk
from .questions import Questions
from .user_breakpoints import UserBreakpoints

if TYPE_CHECKING:
    from ..engines import Engine, Outcome
    from ..engines.tracing import Tracing
    from ..stop.typed_keys import Loss

logger = Logger("dbg_agent.rank")

MAX_WARNINGS = 20
"""Lines that this module may write to the job's stderr in the life of a process, each once."""

IDENTITY_SECONDS = 2.0
"""Seconds between two looks at who this process is: 100 µs each, and ranks that it starts take longer to begin."""

DEFAULT_ENGINE = "pudb"

BEFORE_LINE = "before line"
"""Stands for the engine whose trace function stopped where none did, but the program itself, before its line."""


class Rank:
    """Be what the broker knows as one rank; one for a process, made at the first stop or at ``install``."""

    def __init__(self, settings: Settings, parent: Identity | None = None) -> None:
        self.settings = settings
        self._parent = parent
        self.reads_rc = settings.rc
        self.identity = self.identify()
        self.inbox = Inbox()
        self.stops = Stops(self.publish, self._end_stop)
        self.desk = Desk(self)
        self.link = Link(self.desk)
        self.terminal = Terminal(self.link.outgoing.put_output)
        self.exit_status: int | None = None
        self.breaks: dict[str, list[int]] = {}
        self.loaded = Loaded()
        self.user_breakpoints = UserBreakpoints(self)
        self.console = Console(self)
        self._engines: dict[str, Engine] = {}
        self._engine: Engine | None = None
        self._stop_engine: str | None = None
        self._why_pdb = ""
        """Why the current stop is shown in pdb, whatever else is wanted; empty if it need not be."""
        self.welcome: Welcome | None = None
        open_log(os.environ, self.address)
        logger.info("is a rank: %s", self.identity.key)
        self._warned: set[str] = set()
        self.frame: FrameType | None = None
        """Where the stopped thread is halted; None while it runs."""
        self.interruptible = Interruptible(self.link.call_later)
        self.busy = Busy(self)
        self.questions = Questions(self)
        self.break_in = BreakIn(self)
        self.waits = Waits(self)
        self.lease = Lease(self)
        self.clocks = Clocks(self)
        self.stepped_to: tuple[int, int] | None = None
        """Frame and line at which the tracing has halted last: a stop point of that line has been seen there."""
        self._told_changed: set[str] = set()
        """Files of which it was said in this stop that they have changed."""
        self._sites: list[str] = []
        """Where others are held for the current stop."""
        self.crash: BaseException | None = None
        self.crash_ends = ""
        """What ends by the exception once the rank is let go, such as ``this rank``; empty if nothing does."""
        """What the current stop keeps this rank for."""
        self.last_words: tuple[str, tuple[Place, ...]] | None = None
        """What ends this process if nobody catches it, and where that was raised: itself, it would keep all frames."""

    # ------------------------------------------------------------------------------------------------- any thread

    @property
    def address(self) -> str:
        """Return what terminals call this rank; before the broker has said so, what it will most likely be."""
        if self.welcome is not None and self.welcome.address:
            return self.welcome.address
        return f"{self.identity.host}:{self.identity.rank}"

    @property
    def is_launched(self) -> bool:
        """Tell whether a launcher started this rank, and would end the others with it."""
        return self.identity.launcher != "none"

    def identify(self) -> Identity:
        """Return who this process is now; the child of a rank without a launcher stays in its parent's job."""
        me = this_process()
        if me.launcher not in (NO_PLACE, FRAMEWORK):
            return me
        if self._parent is not None:
            return replace(me, job=self._parent.job, run=self._parent.run) if me.launcher == NO_PLACE else me
        parent = parent_of(os.environ.get(VARIABLE, ""), me.pid)
        if parent is None:
            return me
        job, run, rank = parent
        me = replace(me, job=job, run=run)
        if me.launcher == FRAMEWORK or rank == me.rank:
            return me
        return replace(me, rank=rank, local_rank=None, world_size=None)

    def welcomed(self, welcome: Welcome) -> None:
        """Take in what the broker calls this rank; in the link's thread."""
        is_first, self.welcome = self.welcome is None, welcome
        self.waits.welcomed(welcome.uptime)
        if is_first:
            self.look_again()

    def look_again(self) -> None:
        """Register anew once this process is another rank than it said, and look again later; in the link's thread.

        Only where no launcher has named it: a library that starts ranks itself, or connects them, does so in the midst
        of the program.
        """
        if self.identity.launcher not in (NO_PLACE, BY_LIBRARY):
            return
        # Whoever looks at it now would lose it.
        is_watched = self.stops.current[0] is not None or self.terminal.viewers
        if not is_watched and self.identify().key != self.identity.key:
            self.link.reconnect()
        self.link.call_later(IDENTITY_SECONDS, self.look_again)

    def warn(self, text: str) -> None:
        """Write one line to stderr, once; never raise."""
        if text in self._warned or len(self._warned) >= MAX_WARNINGS:
            return
        self._warned.add(text)
        logger.info("warns: %s", text)
        say(f"{self.address}: {text}")

    def kill(self) -> None:
        """End this process as by ``kill -9``, having said goodbye to the broker; not in the link's thread."""
        self.exit_status = -signal.SIGKILL
        self.close()
        # Not loaded unless there is one.
        guard = sys.modules.get("dbg_agent.guard.rank_side")
        if guard is not None:
            guard.end()
        os.kill(os.getpid(), signal.SIGKILL)

    def close(self) -> None:
        """Say goodbye and end the link, within about two seconds; at the end of the process."""
        if self.last_words is None:
            self.send(fitted(Goodbye, exit=self.exit_status))
        else:
            detail, frames = self.last_words
            self.send(fitted(Goodbye, exit=self.exit_status, detail=detail, frames=frames))
        self.link.close()

    def send(self, message: Message) -> None:
        """Have a message sent, as soon as there is a connection to take it."""
        from dbg_wire.codec import encode

        logger.debug("says %s", Shown(message))
        self.link.outgoing.put_message(encode(message))

    def publish(self) -> None:
        """Have a report sent."""
        self.link.outgoing.put_report()

    def rank_report(self) -> RankReport:
        """Return all that is true of this rank now."""
        generation, applied = self.inbox.settled()
        breakpoints = sum(len(lines) for lines in list(self.breaks.values()))
        report = self.stops.report(breakpoints=breakpoints, generation=generation, applied=applied)
        arrivals = self.waits.holds.arrivals()
        return replace(
            report,
            prompt=self.console.prompt,
            arrivals=arrivals,
            waits=self.waits.waiting,
            user_breakpoints=self.user_breakpoints.known,
        )

    def tell_loss(self, loss: Loss | None) -> None:
        """Tell which keys the debugger will never get, if any."""
        if loss is not None:
            self.send(
                fitted(Discarded, generation=loss.generation, offset=loss.offset, count=loss.count, reason=loss.reason)
            )

    # --------------------------------------------------------------------------------------- in the stopping thread

    def connect(self, settings: Settings, unanswered: float = math.inf) -> DbgError | None:
        """Start the link and wait for the broker as ``settings`` say; return what was wrong, or None.

        A broker of which nobody has answered for ``unanswered`` seconds is not waited for any longer.
        """
        self.link.start()
        try:
            problem = self.link.wait_connected(settings.connect_timeout, unanswered)
            if problem is None or settings.on_missing != "wait":
                return problem
            self.warn(f"{problem}; waiting for a broker")
            return self.link.wait_connected(None)
        except BaseException as error:
            raise ProgramRaised(error) from None

    def stop(
        self,
        frame: FrameType,
        reason: str,
        engine_wanted: str | None = None,
        *,
        site: str | None = None,
        lease: float | None = None,
        detail: str = "",
        crash: BaseException | None = None,
        crash_ends: str = "",
        before_line: bool = False,
    ) -> None:
        """Stop the calling thread at this frame until it is let go, in this engine unless a terminal wants another.

        With a ``site`` this rank was chosen to stop there, and others are held; with a ``lease`` it goes on by itself
        after so many seconds in which nobody sat down. With a ``crash`` it is kept where that was raised. With
        ``before_line`` the frame's line is still to come, so that debuggers show it and not the next one.
        """
        tracer = sys.gettrace()
        # Before anything else: a step onto the stop would go on into whatever is called here.
        sys.settrace(None)
        local_tracers = _local_tracers(frame) if tracer is not None else []
        engine = self._engine
        mine = self.stops.is_mine()
        shown_as = BEFORE_LINE if before_line else None
        nested = mine and self.stops.phase is not StopPhase.STEPPING
        if nested or (engine is not None and engine.ignores(frame)):
            if site is not None and not nested:
                self._pass_by(site)
            # Nested in an expression that was typed into the open debugger, a stop could never end.
            sys.settrace(tracer)
            return
        if site is not None:
            self.waits.holds.arrive(site)
        try:
            if mine and engine is not None:
                if site is not None:
                    self._sites.append(site)
                self._halt(frame)
                if not self._show(engine, frame, shown_as, None):
                    self._serve(frame, shown_as, None)
            else:
                self._arrive(frame, reason, engine_wanted, detail, site)
                self.crash, self.crash_ends = crash, crash_ends
                self.lease.begin(lease)
                self._serve(frame, shown_as, None)
        finally:
            # The frames of a crash have ended, but for those that catch it.
            now = self._tracer(frame if crash is None else _program_frame(), tracer)
            if now is tracer:
                # Letting go, bdb has taken them off every frame, and these are the program's.
                for traced, local_tracer in local_tracers:
                    traced.f_trace = local_tracer
            sys.settrace(now)

    def traced_thread_halts(
        self, name: str, frame: FrameType, interact: Callable[[], Outcome], *, goes_on: bool = False
    ) -> None:
        """Be told by the trace function of the engine of that name that a step or a breakpoint ends here.

        With ``goes_on`` the breakpoint has commands that let the thread go on. To those who look on it runs meanwhile,
        and what is printed belongs to the session before.
        """
        if self.stops.is_mine() and self.stops.is_halted:
            # The interpreter runs something in the midst of our own work, and a breakpoint is there. The stop can't
            # halt once more, and for a debugger that fails it would be over.
            return
        self.stepped_to = (id(frame), frame.f_lineno)
        if self.stops.is_mine() and self._engine is not None:
            self._halt(frame)
            if not self._show(self._engine, frame, name, interact):
                self._serve(frame, name, interact)
        elif goes_on and self._engine is not None and self._may_pass(name):
            self.stops.pass_by(frame)
            self.frame = frame
            if not self._show(self._engine, frame, name, interact):
                self._serve(frame, name, interact)
        else:
            self._arrive(frame, "breakpoint", name)
            self._serve(frame, name, interact)

    def _may_pass(self, name: str) -> bool:
        """Tell whether somebody looks at the log of the engine of that name, and nothing else has been shown since."""
        before = self.stops.session_before
        engine = self._engine
        is_same = engine is not None and engine.name == name and before is not None and before.engine == name
        return is_same and self.terminal.viewers > 0

    def reveal(self) -> None:
        """Tell of the stop of the calling thread if nobody was told so far, since it waits for somebody now."""
        if self.stops.is_passing and self.stops.is_mine() and self.frame is not None:
            self.stops.reveal()
            self._begin(self.frame, "breakpoint", self.stops.engine, "")

    def hand_over(self, tracing: Tracing, frame: FrameType, follow: Any) -> Any:
        """Return what is to trace this frame on, after ``tracing`` did: another engine may be open by now."""
        engine = self._engine
        if engine is None or engine.tracing is tracing:
            return follow
        if engine.tracing.going_on and not self.breaks:
            sys.settrace(None)
            return None
        follow = engine.tracing.adopt_stack(frame)
        sys.settrace(follow)
        return follow

    def show_source(self, frame: FrameType | None) -> None:
        """Tell the lines round this frame's, for terminals that may not have the file."""
        if frame is None or not self.terminal.viewers:
            return
        self.send(source_of(frame, self.breaks))

    def show_source_again(self) -> None:
        """Tell the lines round the line debugger's frame once more, for whoever came; in the stopped thread."""
        if self.stops.engine == "pdb":
            self.show_source(self.looked_at())

    def _tracer(self, frame: FrameType | None, before: Any) -> Any:
        """Return what is to trace the calling thread from this frame on, where ``before`` did so until now."""
        if self._engine is None:
            return before
        tracing = self._engine.tracing
        if frame is None or (tracing.going_on and not self.breaks):
            ours = {id(engine.tracing) for engine in self._engines.values()}
            return None if id(getattr(before, "__self__", None)) in ours else before
        if frame.f_trace is not None and not tracing.going_on and getattr(frame.f_trace, "__self__", None) is tracing:
            # pdb has begun to trace by itself, and knows which frames and instructions.
            return tracing.trace_dispatch
        return tracing.adopt_stack(frame)

    def take_keys(self, count: int) -> None:
        """Acknowledge that the debugger took this many bytes."""
        generation, offset = self.inbox.take_keys(count)
        self.send(fitted(Applied, generation=generation, offset=offset))

    def _arrive(
        self,
        frame: FrameType,
        reason: str,
        engine_wanted: str | None = None,
        detail: str = "",
        site: str | None = None,
    ) -> None:
        """Wait for this thread's turn to stop, and begin the stop; whatever comes out has ended it."""
        try:
            if self.identify().key != self.identity.key:
                # A framework has given this process its rank since it registered.
                self.link.reconnect()
            if has_claimed():
                claim()
            self.stops.arrive(frame, reason, detail)
        except BaseException:
            if site is not None:
                self.waits.holds.complete(site)
                self.publish()
            raise
        try:
            # Not before it is this thread's turn: with the stop before, its sites are over.
            self._sites = [site] if site is not None else []
            self._begin(frame, reason, engine_wanted, detail)
        except BaseException:
            self._end_stop()
            raise

    def _begin(self, frame: FrameType, reason: str, engine_wanted: str | None, detail: str) -> None:
        if reason != HELD:
            self.loaded.read()
        clock = self.clocks.begin(reason, detail)
        self.frame = frame
        self._stop_engine = engine_wanted
        self.break_in.arrived()
        if reason == HELD:
            self.waits.begun()
        elif self.terminal.viewers:
            self.inbox.put(self.stops.number, OpenDebugger(self.engine_wanted()))
        else:
            where = place_of(frame)
            hint = f"`dbg-attach {self.address}` opens it"
            say("; ".join(filter(None, (f"{self.address} stopped at {where.file}:{where.line}", hint, clock))))

    def _halt(self, frame: FrameType) -> None:
        """Note that a step has ended here."""
        self.frame = frame
        self.stops.halt(frame)
        self.break_in.arrived()
        where = place_of(frame)
        self.questions.moved(f"{where.file}:{where.line} {where.function}")

    def engine_wanted(self) -> str:
        """Return which debugger to open: asked for by a terminal, by the stop, by this process's environment."""
        terminal = self.terminal
        if self._why_pdb:
            return "pdb"
        return (
            terminal.engine or self._stop_engine or self.settings.engine or terminal.fallback_engine or DEFAULT_ENGINE
        )

    def _serve(self, frame: FrameType, traced_by: str | None, interact: Callable[[], Outcome] | None) -> None:
        """Do what the inbox asks until the stop ends or a step begins."""
        try:
            while True:
                work = self.inbox.next_work(self.stops.number)
                if isinstance(work, GoOn):
                    if self._engine is not None:
                        # Another one may have been shown last, or none: breakpoints may be set all the same.
                        self._engine.tracing.go_on(frame)
                    self._end_stop()
                    work.done()
                    return
                if isinstance(work, Run):
                    work.job()
                elif isinstance(work, Move):
                    work.begun()
                    self.questions.cant_move()
                elif isinstance(work, OpenDebugger):
                    engine = self._open(work.engine)
                    if engine is not None and self._show(engine, frame, traced_by, interact):
                        return
        except BaseException:
            self._end_stop()
            raise

    def looked_at(self) -> FrameType | None:
        """Return the frame that the open debugger shows, or else where the stop is; in the stopped thread."""
        engine = self._engine
        if engine is not None and self.stops.phase is StopPhase.OPEN:
            shown: FrameType | None = getattr(engine.tracing, "curframe", None)
            return shown or self.frame
        return self.frame

    @property
    def engine(self) -> Engine | None:
        """Return the debugger that was last opened."""
        return self._engine

    def show_in_pdb(self, why: str) -> None:
        """Have the current stop shown in pdb from here on, with this sentence; in the stopped thread."""
        self._why_pdb = why
        self.warn(why)

    def have_engine(self) -> None:
        """Load a debugger, if none is there, to trace for breakpoints that were set without one."""
        if self._engine is None:
            self._engine = self._load(self.engine_wanted())

    def _open(self, name: str) -> Engine | None:
        """Have a debugger and a session for it; return None, having told everybody, if it can't be had."""
        session = self.stops.open_session(name, self.terminal.rows, self.terminal.columns)
        self.terminal.begin(session.number)
        engine = self._load(name)
        if engine is None:
            self.stops.close_session()
            return None
        self._engine = engine
        engine.redraw()
        if self._why_pdb:
            self.console.write(f"{self._why_pdb}\n")
        return engine

    def _load(self, name: str) -> Engine | None:
        """Return the debugger of that name, imported at its first use; None, having told everybody, without one."""
        from ..engines import load

        if name not in self._engines:
            try:
                self._engines[name] = load(name, self)
            except Exception as error:
                # Whatever an import in a training environment comes up with.
                problem = f"{name} can't be opened in this rank ({type(error).__name__}: {printable(str(error))})"
                self.warn(problem)
                self.terminal.write(f"\x1b[2J\x1b[H{problem}".encode())
                return None
        return self._engines[name]

    def _show(
        self, engine: Engine, frame: FrameType, traced_by: str | None, interact: Callable[[], Outcome] | None
    ) -> bool:
        """Interact in the open debugger; return False if another one is to be opened on the same stop.

        ``interact`` is how the engine called ``traced_by`` goes on whose trace function stopped here, if one did.
        """
        from ..engines import Outcome

        self._show_what_runs(engine, frame)
        try:
            if self.crash is not None:
                outcome = engine.post_mortem(self.crash)
            elif interact is not None and engine.name == traced_by:
                outcome = interact()
            else:
                outcome = engine.interact(frame, traced_by is not None)
        except BaseException:
            self._end_stop()
            raise
        if not engine.tracing.has_let_go:
            self.user_breakpoints.look()
        if outcome is Outcome.LEFT:
            self.tell_loss(self.inbox.close(self.stops.close_session, "another debugger was opened"))
            self.inbox.put(self.stops.number, OpenDebugger(self.engine_wanted()))
            return False
        if self.crash is not None:
            engine.tracing.go_on(frame)
        if outcome is Outcome.GO_ON or self.crash is not None:
            self._end_stop()
            return True
        self.reveal()
        self.frame = None
        number = self.stops.step()
        self.link.call_later(SLOW_STEP_SECONDS, lambda: self.stops.step_is_slow(number))
        return True

    def _show_what_runs(self, engine: Engine, frame: FrameType) -> None:
        """Have the debugger show the source that was loaded, or say that it is another one by now."""
        crash = self.crash
        traceback = crash.__traceback__ if crash is not None else None
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        for path in self.loaded.show(frame if traceback is None else traceback.tb_frame):
            if path not in self._told_changed:
                self._told_changed.add(path)
                text = f"{printable(path)} has changed since it was loaded; its lines are not those that run"
                engine.note(text)
                self.send(fitted(Notice, text=text))

    def _end_stop(self) -> None:
        self.frame = self.crash = None
        self._why_pdb = ""
        self.loaded.forget()
        self._told_changed.clear()
        if self.stops.is_passing:
            self._end_pass()
            return
        self._complete_sites()
        self.clocks.end()
        self.tell_loss(self.inbox.end(self.stops.number, self.stops.end, "the stop ended"))
        self.questions.moved("running")

    def _end_pass(self) -> None:
        """End a stop that nobody was told of; a temporary breakpoint that went with it is told."""
        self.tell_loss(self.inbox.end(self.stops.number, self.stops.end, "the stop ended"))
        if not self.breaks:
            self.publish()
        engine = self._engine
        if self.desk.take_interrupt() and engine is not None:
            engine.tracing.break_in()

    def _pass_by(self, site: str) -> None:
        """Count a stop that the user has switched off as over: others would wait there for it."""
        self.waits.holds.arrive(site)
        self.waits.holds.complete(site)
        self.publish()

    def _complete_sites(self) -> None:
        sites, self._sites = self._sites, []
        for site in sites:
            self.waits.holds.complete(site)

    def end_step(self) -> None:
        """End the stop of the calling thread if it steps: what it steps through is over."""
        if self.stops.is_mine() and self.stops.phase is StopPhase.STEPPING:
            self._end_stop()

    def let_others_go(self) -> None:
        """Count the current stop as over for the ranks that are held for it, while it stays; in the stopped thread."""
        if self.stops.is_mine():
            self._complete_sites()
            self.publish()

    # ------------------------------------------------------------------------------------------------- any thread

    def whereabouts(self) -> Place | None:
        """Return where the stop's thread, or else the main thread, is now; None while it is halted."""
        if self.stops.is_halted and not self.stops.is_busy:
            return None
        frame = self.moving_frame()
        return place_of(frame) if frame is not None else None

    def stack(self) -> tuple[Place, ...]:
        """Return the stack of the stop's thread, or else of the main thread; from any thread."""
        crash = self.crash
        if crash is not None:
            return traceback_of(crash.__traceback__)
        stands = self.stops.is_halted and not self.stops.is_busy
        return stack_of(self.frame if stands else self.moving_frame())

    def moving_frame(self) -> FrameType | None:
        """Return the innermost frame of the thread that steps, or else of the main thread."""
        return thread_frame(self.stops.owner or threading.main_thread().ident)


def _program_frame() -> FrameType | None:
    """Return the innermost frame of the calling thread that is not ours; None in the interpreter's own hooks."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and is_own(frame):
        frame = frame.f_back
    return frame


def _local_tracers(frame: FrameType) -> list[tuple[FrameType, Any]]:
    """Return what traces each frame from this one outwards."""
    tracers: list[tuple[FrameType, Any]] = []
    walk: FrameType | None = frame
    while walk is not None:
        tracers.append((walk, walk.f_trace))
        walk = walk.f_back
    return tracers
