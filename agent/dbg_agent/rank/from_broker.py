"""What this rank tells the broker, and how it acts on the broker's messages; all of it in the link's thread."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

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
    Audience,
    Chosen,
    Complete,
    Completions,
    Interrupt,
    Kept,
    Message,
    Probe,
    Pulse,
    Refusal,
    Repaint,
    Replay,
    Replied,
    Reply,
    Report,
    Welcome,
)
from dbg_wire.records.ranks import LINE_ENGINE, PUDB
from dbg_wire.records.record import fitted

if TYPE_CHECKING:
    from dbg_agent.rank.rank import Rank
    from dbg_dial.endpoint import Endpoint, Reach
    from dbg_dial.find import Opening
    from dbg_wire.codec import Input


logger = Logger("dbg_agent.rank")

INTERRUPT_KEY = b"\x03"
"""Ctrl-C, as terminals send it to a program that draws a screen."""


USES = frozenset({Action.EVAL, Action.COMMAND, Action.INSPECT})
"""Questions that users ask of one stop in place of keys: its longest lease begins anew with each."""


class FromBroker:
    """The owner of a rank's link: it answers the link's questions and takes the broker's messages."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self._taken_reply = (0, 0)
        self._brokers: tuple[Endpoint, ...] = ()
        """The brokers of which the last welcome told."""
        self._framed = 0
        """The last generation whose wish for a frame was followed."""

    def find_broker(self, opening: Opening) -> Reach:
        """Return how to reach the broker now; raise DbgError if that is unknown, or impossible from this host.

        Of several brokers a rank and its children dial the same one first, and the ranks of a job different ones.
        This runs in a thread of its own, since a file system may block it; ``opening`` gets each path before.
        """
        reach = find_ranks_broker(self._rank.settings.broker, {**os.environ, **broker_overrides}, opening)
        hide(reach.token)
        return spread(reach, self._brokers, self._rank.membership.place)

    @property
    def owner(self) -> str:
        """Return the address of the broker that has this rank, with its fingerprint, if that is one of several."""
        return str(self._brokers[0]) if self._brokers else ""

    def is_attended(self) -> bool:
        """Tell whether a terminal looks at this rank."""
        return self._rank.debuggers.terminal.viewers > 0

    def registration(self) -> str:
        """Return the frame of a Register, with an identity read anew: a framework may have changed it by now."""
        return self._rank.membership.registration(anew=True)

    def report(self) -> str:
        """Return the frame of a Report."""
        from dbg_wire.codec import encode

        report = Report(report=self._rank.rank_report())
        logger.debug("says %s", LogForm(report))
        return encode(report)

    def redraw(self) -> None:
        """Draw the screen again, or send the log again, or its end."""
        stop, session = self._rank.stops.current
        before = self._rank.stops.session_before
        if self._rank.stops.engine == LINE_ENGINE and session is not None:
            self._rank.debuggers.console.replay(session, 0)
        elif stop is None and before is not None and before.engine == LINE_ENGINE:
            # Commands of breakpoints print while the rank runs. The end of the log tells terminals how much they miss.
            self._rank.debuggers.console.replay_end(before.number)
        elif stop is not None:
            self._rank.inbox.put(stop, Redraw())

    def on_input(self, frame: Input) -> None:
        """Pass keys to the stopped thread; Ctrl-C interrupts the work that keeps the thread from taking them."""
        engine = self._rank.debuggers.last
        is_key = INTERRUPT_KEY in self._rank.inbox.fresh(frame) and self._rank.stops.engine == PUDB
        if engine is not None and is_key and not self._gives_up_step():
            engine.interrupt()
        self._rank.limits.lease.use()
        self._rank.report_loss(self._rank.inbox.type(frame, lambda: self._rank.stops.current))

    def on_disconnect(self) -> None:
        """Note that no terminal looks any more; the stop stays as it is."""
        self._rank.debuggers.terminal.viewers = 0
        self._rank.limits.lease.left()

    def on_give_up(self, problem: DbgError) -> None:
        """Let the program go on: no terminal could ever come to this stop."""
        self._rank.limits.lease.end_stop(f"its link to the broker is lost for good ({problem})")

    def on_message(self, message: Message) -> None:
        """Act on a message of the broker."""
        if isinstance(message, Audience):
            self._on_audience(message)
        elif isinstance(message, Probe):
            self._on_probe()
        elif isinstance(message, Repaint):
            self.redraw()
        elif isinstance(message, Reply):
            self._on_reply(message)
        elif isinstance(message, Complete):
            self._on_complete(message)
        elif isinstance(message, Interrupt):
            self._on_interrupt(message)
        elif isinstance(message, Replay):
            self._rank.debuggers.console.replay(message.session, message.offset)
        elif isinstance(message, Chosen):
            self._rank.holding.on_chosen(message)
        elif isinstance(message, Kept):
            self._rank.holding.on_kept(message)
        elif isinstance(message, Ask):
            self._on_ask(message)
        elif isinstance(message, Welcome):
            self._on_welcome(message)
        elif isinstance(message, Refusal):
            self._rank.warn(f"the broker refused this rank: {printable(message.text)}")

    def _on_probe(self) -> None:
        self._rank.break_in.note()
        position = self._rank.stopping.position
        # The first question after this can tell for how long the rank has been where it is.
        position.age()
        self._rank.send(fitted(Pulse, where=position.moving_place(), frames=position.stack()))

    def _on_welcome(self, welcome: Welcome) -> None:
        self._brokers = known_endpoints((one.url, one.fingerprint) for one in welcome.brokers)
        self._rank.holding.welcomed(welcome.uptime)
        self._rank.membership.welcomed(welcome)
        self._rank.limits.allow(welcome.max_lease)

    def _on_ask(self, ask: Ask) -> None:
        if ask.action in USES:
            self._rank.limits.lease.use()
        self._rank.questions.on_ask(ask)

    def _on_audience(self, audience: Audience) -> None:
        self._rank.limits.note_audience(audience)
        resized = self._rank.debuggers.terminal.seat(audience)
        before, _ = self._rank.inbox.settled()
        self._rank.report_loss(self._rank.inbox.change_driver(audience.generation))
        if audience.generation != before:
            # Only a report of this generation says what became of the former driver's reply.
            self._rank.publish()
        if resized:
            self._rank.stops.resize_session(self._rank.debuggers.terminal.rows, self._rank.debuggers.terminal.columns)
        stop, _ = self._rank.stops.current
        if stop is None or not audience.viewers:
            return
        if audience.frame and audience.generation != self._framed:
            self._framed = audience.generation
            show_frame = partial(self._rank.stopping.view.open_if_there, audience.frame)
            self._rank.inbox.put(stop, RunJob(show_frame))
        open_one = self._rank.stops.engine
        if open_one not in (None, self._rank.debuggers.wanted()) and audience.engine not in (None, open_one):
            self._rank.inbox.put(stop, Switch())
        else:
            self._rank.inbox.put(stop, OpenDebugger(self._rank.debuggers.wanted()))
        if resized:
            self._rank.inbox.put(stop, Redraw())
        if open_one == LINE_ENGINE:
            # A terminal that has just attached has no source yet, and one that has come back may have an old one.
            self._rank.inbox.put(stop, RunJob(self._rank.stopping.show_source_again))

    def _on_reply(self, reply: Reply) -> None:
        generation, _ = self._rank.inbox.settled()
        given = (reply.prompt, reply.generation)
        if given == self._taken_reply:
            # The client has sent the reply again after a reconnect; the rank has taken it before.
            why = ""
        elif reply.generation != generation:
            why = "the keyboard was taken"
        elif self._rank.debuggers.console.reply(reply.prompt, reply.text):
            self._taken_reply = given
            self._rank.limits.lease.use()
            why = ""
        else:
            why = PROMPT_GONE
        self._rank.send(fitted(Replied, prompt=reply.prompt, taken=not why, reason=why))

    def _on_complete(self, complete: Complete) -> None:
        stop, _ = self._rank.stops.current
        engine = self._rank.debuggers.last
        prompt = self._rank.debuggers.console.prompt
        if stop is None or prompt is None or prompt.number != complete.prompt or engine is None:
            return

        def answer() -> None:
            matches = engine.complete_line(complete.line, complete.begin, complete.end)
            self._rank.send(fitted(Completions, request=complete.request, matches=matches))

        self._rank.inbox.put(stop, RunJob(answer))

    def _on_interrupt(self, interrupt: Interrupt) -> None:
        generation, _ = self._rank.inbox.settled()
        engine = self._rank.debuggers.last
        if interrupt.generation != generation:
            return
        if self._rank.stops.phase is StopPhase.OPEN and engine is not None:
            # An unreported stop may have no work to interrupt. The program's next line is interrupted then.
            self._rank.stopping.is_interrupted = self._rank.stops.is_unreported
            engine.interrupt()
        elif self._rank.stops.phase in (StopPhase.NONE, StopPhase.STEPPING) and not self._gives_up_step():
            if engine is not None:
                engine.break_in()
            self._rank.break_in.stop(None)

    def _gives_up_step(self) -> bool:
        """End the stop if its step may wait for a thread that waits for this stop to end; tell whether it ended."""
        gives_up = self._rank.stops.phase is StopPhase.STEPPING and self._rank.stops.queued > 0
        if gives_up:
            self._rank.stopping.end()
        return gives_up
