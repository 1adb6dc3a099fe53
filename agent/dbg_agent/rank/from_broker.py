"""Messages between this rank and the broker: handlers of incoming messages, and reports. Runs in the link's thread."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from dbg_agent.debuggers.console import PROMPT_GONE
from dbg_agent.link.link import broker_overrides, find_ranks_broker
from dbg_agent.process.log import Logger, hide
from dbg_agent.stop.inbox import OpenDebugger, Redraw, RunJob, Switch
from dbg_agent.stop.stops import StopPhase
from dbg_dial.endpoint import known_endpoints, spread
from dbg_wire.codec import LogForm
from dbg_wire.errors import DbgError, printable
from dbg_wire.messages import (
    Action,
    Ask,
    Chosen,
    Complete,
    Completions,
    Differs,
    Interrupt,
    KeptRanks,
    Message,
    Probe,
    ProbeReply,
    Refusal,
    Repaint,
    Replay,
    Replied,
    Reply,
    Report,
    Viewers,
    Welcome,
)
from dbg_wire.records.ranks import LINE_ENGINE, PUDB
from dbg_wire.records.record import clamp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dbg_agent.debuggers.debuggers import Debuggers
    from dbg_agent.debuggers.position import FrameSelector, Position
    from dbg_agent.link.link import Link
    from dbg_agent.link.outgoing import ToBroker
    from dbg_agent.numbers.watch import Watch
    from dbg_agent.questions.break_in import BreakIn
    from dbg_agent.questions.questions import Questions
    from dbg_agent.rank.holding import Holding
    from dbg_agent.rank.membership import Membership
    from dbg_agent.rank.stop_limits import StopLimits
    from dbg_agent.rank.stopping import Stopping
    from dbg_agent.settings import Settings
    from dbg_agent.stop.inbox import Inbox
    from dbg_agent.stop.stops import Halt, Stops
    from dbg_dial.endpoint import Endpoint, Route
    from dbg_dial.find import Opening
    from dbg_wire.codec import Input
    from dbg_wire.messages import RankReport


logger = Logger("dbg_agent.rank")

INTERRUPT_KEY = b"\x03"
"""Ctrl-C, as terminals send it to a program that draws a screen."""


IDENTITY_SECONDS = 2.0
"""Seconds between two checks whether this process has another identity in the job. A check takes 100 µs. A library that
changes the identity starts other ranks, and their start takes more than two seconds anyway."""

USES = frozenset({Action.EVAL, Action.COMMAND, Action.INSPECT})
"""Questions that show that a user works at the stop, although no key is typed in a terminal. Like a key, each of them
restarts the longest time that the broker allows for an unused stop."""


class FromBroker:
    """The owner of a rank's link: answers the link's queries and handles the broker's messages."""

    def __init__(self, settings: Settings, membership: Membership) -> None:
        self._wanted = settings.broker
        self._membership = membership
        self._taken_reply = (0, 0)
        self._brokers: tuple[Endpoint, ...] = ()
        """The brokers that the most recent welcome named."""
        self._framed = 0
        """The generation of the most recent driver whose requested frame was opened. Each driver's frame is opened only
        once."""

    def start(
        self,
        *,
        link: Link,
        broker: ToBroker,
        stops: Stops,
        inbox: Inbox,
        halt: Halt,
        view: FrameSelector,
        position: Position,
        debuggers: Debuggers,
        break_in: BreakIn,
        stopping: Stopping,
        holding: Holding,
        limits: StopLimits,
        questions: Questions,
        report: Callable[[], RankReport],
        watch: Callable[[], Watch],
    ) -> None:
        """Set the objects that messages act on, before the link starts. The link needs this object at its creation."""
        self._link = link
        self._broker = broker
        self._stops = stops
        self._inbox = inbox
        self._halt = halt
        self._view = view
        self._position = position
        self._debuggers = debuggers
        self._break_in = break_in
        self._stopping = stopping
        self._holding = holding
        self._limits = limits
        self._questions = questions
        self._report = report
        self._handlers: Mapping[type[Message], Callable[[Any], None]] = {
            Viewers: self._on_viewers,
            Probe: self._on_probe,
            Repaint: lambda _: self.redraw(),
            Reply: self._on_reply,
            Complete: self._on_complete,
            Interrupt: self._on_interrupt,
            Replay: lambda replay: self._debuggers.console.replay(replay.session, replay.offset),
            Chosen: holding.on_chosen,
            KeptRanks: holding.on_kept,
            Differs: lambda message: watch().on_differs(message),
            Ask: self._on_ask,
            Welcome: self._on_welcome,
            Refusal: lambda refusal: self._broker.warn(f"the broker refused this rank: {printable(refusal.text)}"),
        }

    def find_broker(self, opening: Opening) -> Route:
        """Return how to connect to the broker now. Raise DbgError if that is unknown, or impossible from this host.

        If there are several brokers, the ranks of a job dial different brokers first. The children of a rank first dial
        the same broker as the rank. This runs in a separate thread, because a file system may block. ``opening`` is
        called with each path before the path is opened.
        """
        reach = find_ranks_broker(self._wanted, {**os.environ, **broker_overrides}, opening)
        hide(reach.token)
        return spread(reach, self._brokers, self._membership.place)

    @property
    def owner(self) -> str:
        """The address of this rank's broker, with its fingerprint, if there are several brokers; else empty."""
        return str(self._brokers[0]) if self._brokers else ""

    def is_attended(self) -> bool:
        """Return True if a terminal is attached to this rank."""
        return self._debuggers.terminal.viewers > 0

    def registration(self) -> str:
        """Return the frame of a Register. The identity is read again, because a framework may have changed it."""
        return self._membership.registration(self._report(), anew=True)

    def report(self) -> str:
        """Return the frame of a Report."""
        from dbg_wire.codec import encode

        report = Report(report=self._report())
        logger.debug("sending %s", LogForm(report))
        return encode(report)

    def redraw(self) -> None:
        """Show a terminal the present state again.

        A debugger that draws a screen redraws it. For a debugger that prints lines, its output is sent again: all of
        this session, or only the end of the previous session if the rank is running.
        """
        stop, session = self._stops.current
        before = self._stops.session_before
        if self._stops.engine == LINE_ENGINE and session is not None:
            self._debuggers.console.replay(session, 0)
        elif stop is None and before is not None and before.engine == LINE_ENGINE:
            # While the rank runs, a breakpoint's commands may add output to the previous session. From the end of the
            # output a terminal sees how much it has missed.
            self._debuggers.console.replay_end(before.number)
        elif stop is not None:
            self._inbox.put(stop, Redraw())

    def on_input(self, frame: Input) -> None:
        """Pass keys to the stopped thread. Ctrl-C interrupts work that prevents the thread from reading keys."""
        engine = self._debuggers.last
        is_key = INTERRUPT_KEY in self._inbox.fresh(frame) and self._stops.engine == PUDB
        if engine is not None and is_key and not self._gives_up_step():
            engine.interrupt()
        self._limits.lease.use()
        self._broker.report_loss(self._inbox.type(frame, lambda: self._stops.current))

    def on_disconnect(self) -> None:
        """Record that no terminal is attached any more. The stop continues."""
        self._debuggers.terminal.viewers = 0
        self._limits.lease.left()

    def on_give_up(self, problem: DbgError) -> None:
        """Resume the program: the link to the broker is lost for good, so no terminal can attach to this stop."""
        self._limits.lease.end_stop(f"its link to the broker is lost for good ({problem})")

    def on_message(self, message: Message) -> None:
        """Handle a message of the broker."""
        if (handle := self._handlers.get(type(message))) is not None:
            handle(message)

    def _on_probe(self, _: Probe) -> None:
        self._break_in.note()
        position = self._position
        # From this call on, the place of the running program is watched. So a question that follows this probe can
        # report how long the rank has been at its place.
        position.age()
        self._broker.send(clamp(ProbeReply, where=position.moving_place(), frames=position.stack()))

    def _on_welcome(self, welcome: Welcome) -> None:
        self._brokers = known_endpoints((one.url, one.fingerprint) for one in welcome.brokers)
        self._holding.welcomed(welcome.uptime)
        if self._membership.welcomed(welcome):
            self._poll_identity()
        self._limits.allow(welcome.max_lease)

    def _poll_identity(self) -> None:
        """Register again if the identity has changed, and schedule the next check.

        A library that starts or connects ranks changes the identity while the program runs.
        """
        # A new registration may change the rank's address, so a terminal that is attached would lose the rank.
        is_watched = self._stops.current[0] is not None or self._debuggers.terminal.viewers > 0
        if not is_watched and self._membership.has_moved():
            self._link.reconnect()
        if not self._membership.identity.by_library:
            self._broker.call_later(IDENTITY_SECONDS, self._poll_identity)

    def _on_ask(self, ask: Ask) -> None:
        if ask.action in USES:
            self._limits.lease.use()
        self._questions.on_ask(ask)

    def _on_viewers(self, viewers: Viewers) -> None:
        self._limits.note_viewers(viewers)
        resized = self._debuggers.terminal.seat(viewers)
        before, _ = self._inbox.settled()
        self._broker.report_loss(self._inbox.change_driver(viewers.generation))
        if viewers.generation != before:
            # The previous driver may have sent a reply. Only a report with the new generation shows the broker whether
            # this rank has accepted that reply.
            self._broker.publish()
        if resized:
            self._stops.resize_session(self._debuggers.terminal.rows, self._debuggers.terminal.columns)
        stop, _ = self._stops.current
        if stop is None or not viewers.viewers:
            return
        if viewers.frame and viewers.generation != self._framed:
            self._framed = viewers.generation
            show_frame = partial(self._view.open_if_there, viewers.frame)
            self._inbox.put(stop, RunJob(show_frame))
        open_one = self._stops.engine
        if open_one not in (None, self._debuggers.preferred()) and viewers.engine not in (None, open_one):
            self._inbox.put(stop, Switch())
        else:
            self._inbox.put(stop, OpenDebugger(self._debuggers.preferred()))
        if resized:
            self._inbox.put(stop, Redraw())

    def _on_reply(self, reply: Reply) -> None:
        generation, _ = self._inbox.settled()
        given = (reply.prompt, reply.generation)
        if given == self._taken_reply:
            # The client sent the reply again after a reconnect, but the rank has already accepted it.
            why = ""
        elif reply.generation != generation:
            why = "the keyboard was taken"
        elif self._debuggers.console.reply(reply.prompt, reply.text):
            self._taken_reply = given
            self._limits.lease.use()
            why = ""
        else:
            why = PROMPT_GONE
        self._broker.send(clamp(Replied, prompt=reply.prompt, taken=not why, reason=why))

    def _on_complete(self, complete: Complete) -> None:
        stop, _ = self._stops.current
        engine = self._debuggers.last
        prompt = self._debuggers.console.prompt
        if stop is None or prompt is None or prompt.number != complete.prompt or engine is None:
            return

        def answer() -> None:
            matches = engine.complete_line(complete.line, complete.start, complete.end)
            self._broker.send(clamp(Completions, request=complete.request, matches=matches))

        self._inbox.put(stop, RunJob(answer))

    def _on_interrupt(self, interrupt: Interrupt) -> None:
        generation, _ = self._inbox.settled()
        engine = self._debuggers.last
        if interrupt.generation != generation:
            return
        if self._stops.phase is StopPhase.OPEN and engine is not None:
            # In an unreported stop only a breakpoint's commands run, and they may end before the interrupt arrives.
            # Then the program is interrupted at its next line.
            self._halt.is_interrupted = self._stops.is_unreported
            engine.interrupt()
        elif self._stops.phase in (StopPhase.NONE, StopPhase.STEPPING) and not self._gives_up_step():
            if engine is not None:
                engine.break_in()
            self._break_in.stop(None)

    def _gives_up_step(self) -> bool:
        """End the stop if a step runs while other threads wait for their turn to stop. Return True if it was ended.

        The step may itself wait for one of these threads, and would then never end.
        """
        gives_up = self._stops.phase is StopPhase.STEPPING and self._stops.queued > 0
        if gives_up:
            self._stopping.end()
        return gives_up
