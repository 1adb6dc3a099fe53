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
    Discarded,
    Goodbye,
    Kind,
    Message,
    Probe,
    Pulse,
    RankReport,
    Refusal,
    Register,
    Repaint,
    Report,
    Welcome,
)
from dbg_wire.ranks import Place
from dbg_wire.states import StopPhase
from dbg_wire.version import PROTOCOL_MINOR, RELEASE

from .identity import Identity, ancestors, this_process
from .inbox import GoOn, Inbox, OpenDebugger, ProgramRaised, Redraw, Run
from .link import SLOW_STEP_SECONDS, Link
from .settings import Settings, find_broker
from .stop import Stops, place_of
from .terminal import Terminal

if TYPE_CHECKING:
    from dbg_wire.codec import Input
    from dbg_wire.endpoint import Reach

    from .engines import Engine, Outcome
    from .typed_ahead import Loss

MAX_WARNINGS = 20
"""Lines that this module may write to the job's stderr in the life of a process, each once."""

DEFAULT_ENGINE = "pudb"


class Rank:
    """Be what the broker knows as one rank; one for a process, made at the first stop or at ``install``."""

    def __init__(self, settings: Settings, parent: Identity | None = None) -> None:
        self.settings = settings
        self._parent = parent
        self.identity = self._identify()
        self.inbox = Inbox()
        self.stops = Stops(self._publish)
        self.link = Link(self)
        self.terminal = Terminal(self.link.outgoing.put_output)
        self.exit_status: int | None = None
        self._engine: Engine | None = None
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

    def _publish(self) -> None:
        self.link.outgoing.put_report()

    def _rank_report(self) -> RankReport:
        generation, applied = self.inbox.settled()
        engine = self._engine
        breakpoints = engine.breakpoints() if engine is not None else 0
        return self.stops.report(breakpoints=breakpoints, generation=generation, applied=applied)

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

    def stop(self, frame: FrameType, reason: str) -> None:
        """Stop the calling thread at this frame until it is let go."""
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
            if mine:
                self.stops.halt(frame)
                self._show(lambda engine: engine.interact(frame))
            else:
                self._arrive(frame, reason)
                self._serve(lambda engine: engine.interact(frame))
        finally:
            engine = self._engine
            now = engine.tracer(frame, tracer) if engine is not None else tracer
            if now is tracer:
                # Letting go, bdb has taken them off every frame, and these are the program's.
                for traced, local_tracer in local_tracers:
                    traced.f_trace = local_tracer
            sys.settrace(now)

    def traced_thread_halts(self, frame: FrameType, interact: Callable[[], Outcome]) -> None:
        """Be told by the debugger's trace function that a step or a breakpoint ends here."""
        if self.stops.is_mine():
            self.stops.halt(frame)
            self._show(lambda _engine: interact())
        else:
            self._arrive(frame, "breakpoint")
            self._serve(lambda _engine: interact())

    def take_keys(self, count: int) -> None:
        """Acknowledge that the debugger took this many bytes."""
        generation, offset = self.inbox.take_keys(count)
        self._send(Applied(generation=generation, offset=offset))

    def _arrive(self, frame: FrameType, reason: str) -> None:
        if self._identify().key != self.identity.key:
            # A framework has given this process its rank since it registered.
            self.link.reconnect()
        self.stops.arrive(frame, reason)
        if self.terminal.viewers:
            self.inbox.put(self.stops.number, OpenDebugger(self.terminal.engine or DEFAULT_ENGINE))
        else:
            where = place_of(frame)
            say(f"{self.address} stopped at {where.file}:{where.line}; `dbg-attach {self.address}` opens it")

    def _serve(self, interact: Callable[[Engine], Outcome]) -> None:
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
                elif isinstance(work, OpenDebugger) and self._open(work.engine):
                    self._show(interact)
                    return
        except BaseException:
            self._end_stop()
            raise

    def _open(self, name: str) -> bool:
        """Have a debugger and a session for it; return False, having told everybody, if it can't be had."""
        from .engines import load

        session = self.stops.open_session(name, self.terminal.rows, self.terminal.columns)
        self.terminal.begin(session.number)
        if self._engine is None:
            try:
                self._engine = load(name, self)
            except Exception as error:
                problem = f"{name} can't be opened in this rank ({type(error).__name__}: {printable(str(error))})"
                self.warn(problem)
                self.terminal.write(f"\x1b[2J\x1b[H{problem}".encode())
                self.stops.close_session()
                return False
        self._engine.redraw()
        return True

    def _show(self, interact: Callable[[Engine], Outcome]) -> None:
        """Interact in the open debugger; afterwards either a step has begun or the stop is over."""
        from .engines import Outcome

        engine = self._engine
        if engine is None:
            raise RuntimeError("a debugger is shown before it was opened")
        try:
            outcome = interact(engine)
        except BaseException:
            self._end_stop()
            raise
        if outcome is Outcome.GO_ON:
            self._end_stop()
            return
        number = self.stops.step()
        self.link.call_later(SLOW_STEP_SECONDS, lambda: self.stops.step_is_slow(number))

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
        """Have the screen drawn again."""
        stop, _ = self.stops.current
        if stop is not None:
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
        self.inbox.put(stop, OpenDebugger(audience.engine or DEFAULT_ENGINE))
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
            self.inbox.put(stop, OpenDebugger(DEFAULT_ENGINE))
            self.inbox.put(stop, Run(lambda: self._answer_screen(answer)))

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
