"""This process as a rank: its one link, its one current stop, its debugger, and how they meet.

Methods of :class:`Rank` named ``on_…`` run in the link's thread; the others in the thread that says so.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any

from dbg_wire.errors import DbgError, WrongHost, printable
from dbg_wire.messages import (
    Action,
    Answer,
    Applied,
    Ask,
    Audience,
    Complete,
    Completions,
    Discarded,
    Goodbye,
    Interrupt,
    Kind,
    Message,
    Probe,
    Pulse,
    RankReport,
    Refusal,
    Register,
    Repaint,
    Replay,
    Replied,
    Reply,
    Report,
    Welcome,
)
from dbg_wire.ranks import Place
from dbg_wire.states import StopPhase
from dbg_wire.version import PROTOCOL_MINOR, RELEASE

from .console import Console
from .identity import Identity, ancestors, this_process
from .inbox import GoOn, Inbox, Line, OpenDebugger, ProgramRaised, Redraw, Run, Switch
from .link import SLOW_STEP_SECONDS, Link
from .settings import Settings, find_broker
from .source import source_of
from .stop import Stops, place_of
from .terminal import Terminal

if TYPE_CHECKING:
    from dbg_wire.codec import Input
    from dbg_wire.endpoint import Reach

    from .engines import Engine, Outcome
    from .engines.tracing import Tracing
    from .typed_ahead import Loss

MAX_WARNINGS = 20
"""Lines that this module may write to the job's stderr in the life of a process, each once."""

DEFAULT_ENGINE = "pudb"


class Rank:
    """Be what the broker knows as one rank; one for a process, made at the first stop or at ``install``."""

    def __init__(self, settings: Settings, parent: Identity | None = None) -> None:
        self.settings = settings
        self._parent = parent
        self.reads_rc = settings.rc
        self.identity = self._identify()
        self.inbox = Inbox()
        self.stops = Stops(self.publish)
        self.link = Link(self)
        self.terminal = Terminal(self.link.outgoing.put_output)
        self.exit_status: int | None = None
        self.breaks: dict[str, list[int]] = {}
        self.console = Console(self)
        self._engines: dict[str, Engine] = {}
        self._engine: Engine | None = None
        self._stop_engine: str | None = None
        self._taken_prompt = 0
        self._welcome: Welcome | None = None
        self._warned: set[str] = set()

    # ------------------------------------------------------------------------------------------------- any thread

    @property
    def address(self) -> str:
        """Return what terminals call this rank; before the broker has said so, what it will most likely be."""
        if self._welcome is not None and self._welcome.address:
            return self._welcome.address
        return f"{self.identity.host}:{self.identity.rank}"

    @property
    def is_launched(self) -> bool:
        """Tell whether a launcher started this rank, and would end the others with it."""
        return self.identity.launcher != "none"

    def _identify(self) -> Identity:
        """Return who this process is now; forked from a rank without a launcher, it stays in its parent's job."""
        me = this_process()
        if self._parent is not None and me.launcher == "none":
            return replace(me, job=self._parent.job, run=self._parent.run)
        return me

    def warn(self, text: str) -> None:
        """Write one line to stderr, once; never raise."""
        if text in self._warned or len(self._warned) >= MAX_WARNINGS:
            return
        self._warned.add(text)
        say(f"{self.address}: {text}")

    def kill(self) -> None:
        """End this process as by ``kill -9``, having said goodbye to the broker; not in the link's thread."""
        self.exit_status = -signal.SIGKILL
        self.close()
        os.kill(os.getpid(), signal.SIGKILL)

    def close(self) -> None:
        """Say goodbye and end the link, within about two seconds; at the end of the process."""
        self._send(Goodbye(exit=self.exit_status))
        self.link.close()

    def _send(self, message: Message) -> None:
        from dbg_wire.codec import encode

        self.link.outgoing.put_message(encode(message))

    def publish(self) -> None:
        """Have a report sent."""
        self.link.outgoing.put_report()

    def _rank_report(self) -> RankReport:
        generation, applied = self.inbox.settled()
        breakpoints = sum(len(lines) for lines in list(self.breaks.values()))
        report = self.stops.report(breakpoints=breakpoints, generation=generation, applied=applied)
        return replace(report, prompt=self.console.prompt)

    def _tell_loss(self, loss: Loss | None) -> None:
        if loss is not None:
            self._send(Discarded(generation=loss.generation, offset=loss.offset, count=loss.count, reason=loss.reason))

    # --------------------------------------------------------------------------------------- in the stopping thread

    def connect(self, settings: Settings) -> DbgError | None:
        """Start the link and wait for the broker as ``settings`` say; return what was wrong, or None."""
        self.link.start()
        try:
            problem = self.link.wait_connected(settings.connect_timeout)
            if problem is None or settings.on_missing != "wait":
                return problem
            self.warn(f"{problem}; waiting for a broker")
            return self.link.wait_connected(None)
        except BaseException as error:
            raise ProgramRaised(error) from None

    def stop(self, frame: FrameType, reason: str, engine_wanted: str | None = None) -> None:
        """Stop the calling thread at this frame until it is let go, in this engine unless a terminal wants another."""
        tracer = sys.gettrace()
        # Before anything else: a step onto the stop would go on into whatever is called here.
        sys.settrace(None)
        local_tracers = _local_tracers(frame) if tracer is not None else []
        engine = self._engine
        mine = self.stops.is_mine()
        nested = mine and self.stops.phase is not StopPhase.STEPPING
        if nested or (engine is not None and engine.ignores(frame)):
            # Nested in an expression that was typed into the open debugger, a stop could never end.
            sys.settrace(tracer)
            return
        try:
            if mine and engine is not None:
                self.stops.halt(frame)
                if not self._show(engine, frame, None, None):
                    self._serve(frame, None, None)
            else:
                self._arrive(frame, reason, engine_wanted)
                self._serve(frame, None, None)
        finally:
            now = self._tracer(frame, tracer)
            if now is tracer:
                # Letting go, bdb has taken them off every frame, and these are the program's.
                for traced, local_tracer in local_tracers:
                    traced.f_trace = local_tracer
            sys.settrace(now)

    def traced_thread_halts(self, name: str, frame: FrameType, interact: Callable[[], Outcome]) -> None:
        """Be told by the trace function of the engine of that name that a step or a breakpoint ends here."""
        if self.stops.is_mine() and self._engine is not None:
            self.stops.halt(frame)
            if not self._show(self._engine, frame, name, interact):
                self._serve(frame, name, interact)
        else:
            self._arrive(frame, "breakpoint", name)
            self._serve(frame, name, interact)

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
        self._send(source_of(frame, self.breaks))

    def _tracer(self, frame: FrameType, before: Any) -> Any:
        """Return what is to trace the calling thread from this frame on, where ``before`` did so until now."""
        if self._engine is None:
            return before
        tracing = self._engine.tracing
        if tracing.going_on and not self.breaks:
            ours = {id(engine.tracing) for engine in self._engines.values()}
            return None if id(getattr(before, "__self__", None)) in ours else before
        if frame.f_trace is not None and not tracing.going_on and getattr(frame.f_trace, "__self__", None) is tracing:
            # pdb has begun to trace by itself, and knows which frames and instructions.
            return tracing.trace_dispatch
        return tracing.adopt_stack(frame)

    def take_keys(self, count: int) -> None:
        """Acknowledge that the debugger took this many bytes."""
        generation, offset = self.inbox.take_keys(count)
        self._send(Applied(generation=generation, offset=offset))

    def _arrive(self, frame: FrameType, reason: str, engine_wanted: str | None = None) -> None:
        if self._identify().key != self.identity.key:
            # A framework has given this process its rank since it registered.
            self.link.reconnect()
        self.stops.arrive(frame, reason)
        self._stop_engine = engine_wanted
        if self.terminal.viewers:
            self.inbox.put(self.stops.number, OpenDebugger(self._engine_wanted()))
        else:
            where = place_of(frame)
            say(f"{self.address} stopped at {where.file}:{where.line}; `dbg-attach {self.address}` opens it")

    def _engine_wanted(self) -> str:
        """Return which debugger to open: asked for by a terminal, by the stop, by this process's environment."""
        return self.terminal.engine or self._stop_engine or self.settings.engine or DEFAULT_ENGINE

    def _serve(self, frame: FrameType, traced_by: str | None, interact: Callable[[], Outcome] | None) -> None:
        """Do what the inbox asks until the stop ends or a step begins."""
        try:
            while True:
                work = self.inbox.next_work(self.stops.number)
                if isinstance(work, GoOn):
                    self._end_stop()
                    work.done()
                    return
                if isinstance(work, Run):
                    work.job()
                elif isinstance(work, OpenDebugger):
                    engine = self._open(work.engine)
                    if engine is not None and self._show(engine, frame, traced_by, interact):
                        return
        except BaseException:
            self._end_stop()
            raise

    def _open(self, name: str) -> Engine | None:
        """Have a debugger and a session for it; return None, having told everybody, if it can't be had."""
        from .engines import load

        session = self.stops.open_session(name, self.terminal.rows, self.terminal.columns)
        self.terminal.begin(session.number)
        if name not in self._engines:
            try:
                self._engines[name] = load(name, self)
            except Exception as error:
                # Whatever an import in a training environment comes up with.
                problem = f"{name} can't be opened in this rank ({type(error).__name__}: {printable(str(error))})"
                self.warn(problem)
                self.terminal.write(f"\x1b[2J\x1b[H{problem}".encode())
                self.stops.close_session()
                return None
        self._engine = self._engines[name]
        self._engine.redraw()
        return self._engine

    def _show(
        self, engine: Engine, frame: FrameType, traced_by: str | None, interact: Callable[[], Outcome] | None
    ) -> bool:
        """Interact in the open debugger; return False if another one is to be opened on the same stop.

        ``interact`` is how the engine called ``traced_by`` goes on whose trace function stopped here, if one did.
        """
        from .engines import Outcome

        try:
            if interact is not None and engine.name == traced_by:
                outcome = interact()
            else:
                outcome = engine.interact(frame, traced_by is not None)
        except BaseException:
            self._end_stop()
            raise
        if outcome is Outcome.LEFT:
            self.stops.close_session()
            self.inbox.put(self.stops.number, OpenDebugger(self._engine_wanted()))
            return False
        if outcome is Outcome.GO_ON:
            self._end_stop()
            return True
        number = self.stops.step()
        self.link.call_later(SLOW_STEP_SECONDS, lambda: self.stops.step_is_slow(number))
        return True

    def _end_stop(self) -> None:
        self._tell_loss(self.inbox.end(self.stops.number, self.stops.end, "the stop ended"))

    # ------------------------------------------------------------------------------------------ in the link's thread

    def find_broker(self) -> Reach:
        """Return where the broker is now; raise DbgError if nobody says, or if it can't be reached from this host."""
        from dbg_wire.endpoint import wrong_host_reason

        reach, rendezvous = find_broker(self.settings, os.environ)
        # A loopback address that somebody typed may be the end of a tunnel; one that the broker wrote is its own.
        if rendezvous is not None and reach.sources["address"] == "broker.json":
            reason = wrong_host_reason(reach.endpoint, rendezvous.host, os.uname().nodename)
            if reason is not None:
                raise WrongHost(reason)
        return reach

    def registration(self) -> str:
        """Return the frame that says who this rank is, read anew: a framework may know better by now."""
        from dbg_wire.codec import encode

        self.identity = me = self._identify()
        return encode(
            Register(
                minor=PROTOCOL_MINOR,
                release=RELEASE,
                key=me.key,
                job=me.job,
                run=me.run,
                host=me.host,
                rank=me.rank,
                local_rank=me.local_rank,
                world_size=me.world_size,
                child=self._welcome.child if self._welcome is not None else None,
                pid=me.pid,
                ancestors=ancestors(me.pid),
                kernel=kernel_name(),
                script=me.script,
                directory=me.directory,
                python=sys.version.split()[0],
                report=self._rank_report(),
            )
        )

    def report(self) -> str:
        """Return the frame that says what is true of this rank."""
        from dbg_wire.codec import encode

        return encode(Report(report=self._rank_report()))

    def redraw(self) -> None:
        """Have the screen drawn again, or the end of the log sent again."""
        stop, session = self.stops.current
        if self.stops.engine == "pdb" and session is not None:
            self.console.replay(session, 0)
        elif stop is not None:
            self.inbox.put(stop, Redraw())

    def on_input(self, frame: Input) -> None:
        """Pass keys to the stopped thread."""
        self._tell_loss(self.inbox.type(frame, lambda: self.stops.current))

    def on_disconnect(self) -> None:
        """Note that nobody looks any more; the stop stays as it is."""
        self.terminal.viewers = 0

    def on_message(self, message: Message) -> None:
        """Act on what the broker says."""
        if isinstance(message, Audience):
            self._on_audience(message)
        elif isinstance(message, Probe):
            self._send(Pulse(where=self._whereabouts()))
        elif isinstance(message, Repaint):
            self.redraw()
        elif isinstance(message, Reply):
            self._on_reply(message)
        elif isinstance(message, Complete):
            self._on_complete(message)
        elif isinstance(message, Interrupt):
            self._on_interrupt(message)
        elif isinstance(message, Replay):
            self.console.replay(message.session, message.offset)
        elif isinstance(message, Ask):
            self._on_ask(message)
        elif isinstance(message, Welcome):
            self._welcome = message
        elif isinstance(message, Refusal):
            self.warn(f"the broker refused this rank: {printable(message.text)}")

    def _on_audience(self, audience: Audience) -> None:
        resized = self.terminal.seat(audience)
        self._tell_loss(self.inbox.change_driver(audience.generation))
        if resized:
            self.stops.resize_session(self.terminal.rows, self.terminal.columns)
        stop, _ = self.stops.current
        if stop is None or not audience.viewers:
            return
        open_one = self.stops.engine
        if open_one is not None and audience.engine not in (None, open_one):
            self.inbox.put(stop, Switch())
        else:
            self.inbox.put(stop, OpenDebugger(self._engine_wanted()))
        if resized:
            self.inbox.put(stop, Redraw())

    def _on_ask(self, ask: Ask) -> None:
        def answer(kind: Kind, text: str, rows: tuple[str, ...] = ()) -> None:
            self._send(Answer(request=ask.request, kind=kind, text=text, rows=rows))

        stop, session = self.stops.current
        if ask.action is Action.KILL:
            answer(Kind.VALUE, "killed")
            # The link's thread must go on to send this, so another one does the killing.
            threading.Thread(target=self.kill, name="dbg-agent-kill", daemon=True).start()
        elif stop is None or self.stops.phase is StopPhase.STEPPING:
            where = self._whereabouts()
            answer(Kind.RUNNING, f"running, {where.file}:{where.line}" if where else "running")
        elif ask.action is Action.CONTINUE:
            self.inbox.put(stop, GoOn(lambda: answer(Kind.VALUE, "continued")))
        else:
            if session is None and not self.terminal.viewers:
                self.terminal.resize(ask.rows, ask.columns)
            self.inbox.put(stop, OpenDebugger(self._engine_wanted()))
            self.inbox.put(stop, Run(lambda: self._answer_screen(answer)))

    def _on_reply(self, reply: Reply) -> None:
        prompt = self.console.prompt
        stop, _ = self.stops.current
        generation, _ = self.inbox.settled()
        if reply.generation != generation:
            why = "the keyboard was taken"
        elif prompt is None or stop is None or prompt.number != reply.prompt:
            why = "the prompt it was typed for is gone"
        elif reply.prompt == self._taken_prompt:
            # Sent again after a reconnect; it was taken when it came first.
            why = ""
        else:
            self._taken_prompt = reply.prompt
            self.inbox.put(stop, Line(reply.text))
            why = ""
        self._send(Replied(prompt=reply.prompt, taken=not why, reason=why))

    def _on_complete(self, complete: Complete) -> None:
        stop, _ = self.stops.current
        engine = self._engine
        prompt = self.console.prompt
        if stop is None or prompt is None or prompt.number != complete.prompt or engine is None:
            return

        def answer() -> None:
            matches = engine.complete(complete.line, complete.begin, complete.end)
            self._send(Completions(request=complete.request, matches=matches))

        self.inbox.put(stop, Run(answer))

    def _on_interrupt(self, interrupt: Interrupt) -> None:
        generation, _ = self.inbox.settled()
        engine = self._engine
        if engine is None or interrupt.generation != generation:
            return
        if self.stops.phase is StopPhase.OPEN:
            engine.interrupt()
        elif self.stops.phase in (StopPhase.NONE, StopPhase.STEPPING):
            engine.tracing.break_in()

    def _answer_screen(self, answer: Callable[[Kind, str, tuple[str, ...]], None]) -> None:
        engine = self._engine
        if engine is None:
            answer(Kind.ERROR, "no debugger can be opened in this rank", ())
        else:
            answer(Kind.VALUE, engine.name, engine.screen())

    def _whereabouts(self) -> Place | None:
        """Return where the stop's thread, or else the main thread, is now; None while it is halted."""
        phase = self.stops.phase
        if phase in (StopPhase.WAITING, StopPhase.OPEN):
            return None
        thread = self.stops.owner or threading.main_thread().ident
        frame = sys._current_frames().get(thread or 0)
        return place_of(frame) if frame is not None else None


def _local_tracers(frame: FrameType) -> list[tuple[FrameType, Any]]:
    """Return what traces each frame from this one outwards."""
    tracers: list[tuple[FrameType, Any]] = []
    walk: FrameType | None = frame
    while walk is not None:
        tracers.append((walk, walk.f_trace))
        walk = walk.f_back
    return tracers


def say(text: str) -> None:
    """Write one line to the job's stderr; never raise, whatever the program made of it."""
    line = f"dbg-agent: {text}\n"
    try:
        stream, own = sys.stderr, sys.__stderr__
        stream.flush()
        if own is not None and stream is own:
            # Past its buffer: what a full disk doesn't take would stay there, and fail the whole job at its exit.
            os.write(own.fileno(), line.encode(own.encoding, "backslashreplace"))
        else:
            stream.write(line)
            stream.flush()
    except Exception:  # noqa: S110 - there is nowhere else to say it, and training must go on
        pass


def kernel_name() -> str:
    """Return what names this boot and process-id namespace; a broker with the same can see our processes."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
            boot = file.read().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"  # noqa: PTH116
    except OSError:
        return "unknown"
