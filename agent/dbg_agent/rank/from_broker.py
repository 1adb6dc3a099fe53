"""What this rank tells the broker, and how it acts on the broker's messages; all of it in the link's thread."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Protocol

from dbg_agent.engines.console import PROMPT_GONE, Console
from dbg_agent.launch.ancestry import ancestors
from dbg_agent.launch.mesh import coordinates
from dbg_agent.launch.this_process import Identity
from dbg_agent.link.lookup import find_ranks_broker, told
from dbg_agent.log import Logger, Shown, hide
from dbg_agent.rank.break_in import BreakIn
from dbg_agent.rank.debuggers import Debuggers
from dbg_agent.rank.membership import Membership
from dbg_agent.rank.position import Position
from dbg_agent.rank.questions import Questions
from dbg_agent.settings import Settings
from dbg_agent.stop.inbox import Inbox, OpenDebugger, Redraw, RunJob, Switch
from dbg_agent.stop.stops import Stops
from dbg_agent.stop.terminal import Terminal
from dbg_agent.stop.typed_keys import Loss
from dbg_agent.waiting.deadlines import Deadlines
from dbg_agent.waiting.holding import Holding
from dbg_agent.waiting.lease import Lease
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
from dbg_wire.records.record import fitted
from dbg_wire.states import StopPhase
from dbg_wire.tables.engines import LINE_ENGINE, PUDB
from dbg_wire.version import PROTOCOL_MINOR, RELEASE

if TYPE_CHECKING:
    from dbg_dial.find import Opening
    from dbg_wire.codec import Input
    from dbg_wire.finding.endpoint import Reach


logger = Logger("dbg_agent.rank")

INTERRUPT_KEY = b"\x03"
"""Ctrl-C, as terminals send it to a program that draws a screen."""


USES = frozenset({Action.EVAL, Action.COMMAND, Action.INSPECT})
"""Questions that users ask of one stop in place of keys: its longest lease begins anew with each."""


class SourceShower(Protocol):
    """The part of a stop that shows its source."""

    def show_source_again(self) -> None:
        """Send the lines around the line debugger's frame once more; in the stopped thread."""


class WishedFrame(Protocol):
    """The part of a stop that shows a frame."""

    def open_if_there(self, wanted: str) -> None:
        """Show the frame that a user asks for, or tell that there is none; in the stopped thread."""


class HeardRank(Protocol):
    """The parts of a rank that the broker's messages are for."""

    settings: Settings
    inbox: Inbox
    stops: Stops
    terminal: Terminal
    console: Console
    membership: Membership
    debuggers: Debuggers
    questions: Questions
    break_in: BreakIn
    holding: Holding
    lease: Lease
    deadlines: Deadlines
    position: Position

    @property
    def stopping(self) -> SourceShower:
        """Return the current stop."""

    @property
    def view(self) -> WishedFrame:
        """Return which frame of the current stop is looked at."""

    def warn(self, text: str) -> None:
        """Write one line to stderr, once; never raise."""

    def send(self, message: Message) -> None:
        """Have a message sent."""

    def publish(self) -> None:
        """Have a report sent."""

    def tell_loss(self, loss: Loss | None) -> None:
        """Tell which keys the debugger will never get, if any."""

    def rank_report(self) -> RankReport:
        """Return the whole state of this rank now."""


class FromBroker:
    """The owner of a rank's link: it answers the link's questions and takes the broker's messages."""

    def __init__(self, rank: HeardRank) -> None:
        self._rank = rank
        self._taken_reply = (0, 0)
        self._is_interrupted = False
        self._framed = 0
        """The last generation whose wish for a frame was followed."""

    def find_broker(self, opening: Opening) -> Reach:
        """Return how to reach the broker now; raise DbgError if that is unknown, or impossible from this host.

        This runs in a thread of its own, since a file system may block it; ``opening`` gets each path before.
        """
        reach = find_ranks_broker(self._rank.settings.broker, {**os.environ, **told}, opening)
        hide(reach.token)
        return reach

    def is_attended(self) -> bool:
        """Tell whether a terminal looks at this rank."""
        return self._rank.terminal.viewers > 0

    def registration(self) -> str:
        """Return the frame of a Register, with an identity read anew: a framework may have changed it by now."""
        self._rank.membership.identity = me = self._rank.membership.identify()
        return self._registration_of(me, ancestors(me.pid))

    def first_registration(self) -> str:
        """Return a Register for the guard, with the known identity; the guard finds the ancestors itself."""
        return self._registration_of(self._rank.membership.identity, ())

    def _registration_of(self, me: Identity, above: tuple[int, ...]) -> str:
        from dbg_dial.kernel import kernel_name
        from dbg_wire.codec import encode

        welcome = self._rank.membership.welcome
        registration = fitted(
            Register,
            minor=PROTOCOL_MINOR,
            release=RELEASE,
            key=me.key,
            job=me.job,
            run=me.run,
            host=me.host,
            rank=me.rank,
            local_rank=me.local_rank,
            world_size=me.world_size,
            child=welcome.child if welcome is not None else None,
            pid=me.pid,
            ancestors=above,
            kernel=kernel_name() or "unknown",
            script=me.script,
            directory=me.directory,
            python=sys.version.split()[0],
            report=self._rank.rank_report(),
            coordinates=coordinates(self._rank.settings.mesh, me.rank),
            secret=self._rank.membership.secret,
        )
        logger.debug("says %s", Shown(registration))
        return encode(registration)

    def report(self) -> str:
        """Return the frame of a Report."""
        from dbg_wire.codec import encode

        report = Report(report=self._rank.rank_report())
        logger.debug("says %s", Shown(report))
        return encode(report)

    def redraw(self) -> None:
        """Draw the screen again, or send the log again, or its end."""
        stop, session = self._rank.stops.current
        before = self._rank.stops.session_before
        if self._rank.stops.engine == LINE_ENGINE and session is not None:
            self._rank.console.replay(session, 0)
        elif stop is None and before is not None and before.engine == LINE_ENGINE:
            # Commands of breakpoints print while the rank runs. The end of the log tells terminals how much they miss.
            self._rank.console.replay_end(before.number)
        elif stop is not None:
            self._rank.inbox.put(stop, Redraw())

    def on_input(self, frame: Input) -> None:
        """Pass keys to the stopped thread; Ctrl-C interrupts the work that keeps the thread from taking them."""
        engine = self._rank.debuggers.last
        if engine is not None and INTERRUPT_KEY in self._rank.inbox.fresh(frame) and self._rank.stops.engine == PUDB:
            engine.interrupt()
        self._rank.lease.use()
        self._rank.tell_loss(self._rank.inbox.type(frame, lambda: self._rank.stops.current))

    def on_disconnect(self) -> None:
        """Note that no terminal looks any more; the stop stays as it is."""
        self._rank.terminal.viewers = 0
        self._rank.lease.left()

    def on_give_up(self, problem: DbgError) -> None:
        """Let the program go on: no terminal could ever come to this stop."""
        self._rank.lease.end_stop(f"its link to the broker is lost for good ({problem})")

    def on_message(self, message: Message) -> None:
        """Act on a message of the broker."""
        if isinstance(message, Audience):
            self._on_audience(message)
        elif isinstance(message, Probe):
            self._rank.break_in.note()
            # The first question after this can tell for how long the rank has been where it is.
            self._rank.position.age()
            self._rank.send(fitted(Pulse, where=self._rank.position.moving_place(), frames=self._rank.position.stack()))
        elif isinstance(message, Repaint):
            self.redraw()
        elif isinstance(message, Reply):
            self._on_reply(message)
        elif isinstance(message, Complete):
            self._on_complete(message)
        elif isinstance(message, Interrupt):
            self._on_interrupt(message)
        elif isinstance(message, Replay):
            self._rank.console.replay(message.session, message.offset)
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

    def _on_welcome(self, welcome: Welcome) -> None:
        self._rank.holding.welcomed(welcome.uptime)
        self._rank.membership.welcomed(welcome)
        self._rank.lease.allow(welcome.max_lease)
        self._rank.deadlines.look()

    def _on_ask(self, ask: Ask) -> None:
        if ask.action in USES:
            self._rank.lease.use()
        self._rank.questions.on_ask(ask)

    def _on_audience(self, audience: Audience) -> None:
        self._rank.lease.note(audience)
        self._rank.deadlines.look()
        resized = self._rank.terminal.seat(audience)
        before, _ = self._rank.inbox.settled()
        self._rank.tell_loss(self._rank.inbox.change_driver(audience.generation))
        if audience.generation != before:
            # Only a report of this generation says what became of the former driver's reply.
            self._rank.publish()
        if resized:
            self._rank.stops.resize_session(self._rank.terminal.rows, self._rank.terminal.columns)
        stop, _ = self._rank.stops.current
        if stop is None or not audience.viewers:
            return
        if audience.frame and audience.generation != self._framed:
            self._framed = audience.generation
            show_frame = partial(self._rank.view.open_if_there, audience.frame)
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
        elif self._rank.console.reply(reply.prompt, reply.text):
            self._taken_reply = given
            self._rank.lease.use()
            why = ""
        else:
            why = PROMPT_GONE
        self._rank.send(fitted(Replied, prompt=reply.prompt, taken=not why, reason=why))

    def _on_complete(self, complete: Complete) -> None:
        stop, _ = self._rank.stops.current
        engine = self._rank.debuggers.last
        prompt = self._rank.console.prompt
        if stop is None or prompt is None or prompt.number != complete.prompt or engine is None:
            return

        def answer() -> None:
            matches = engine.complete(complete.line, complete.begin, complete.end)
            self._rank.send(fitted(Completions, request=complete.request, matches=matches))

        self._rank.inbox.put(stop, RunJob(answer))

    def take_interrupt(self) -> bool:
        """Tell, once, that Ctrl-C was pressed during an unreported stop that ends now; in the stop's thread."""
        interrupted, self._is_interrupted = self._is_interrupted, False
        return interrupted

    def _on_interrupt(self, interrupt: Interrupt) -> None:
        generation, _ = self._rank.inbox.settled()
        engine = self._rank.debuggers.last
        if interrupt.generation != generation:
            return
        if self._rank.stops.phase is StopPhase.OPEN and engine is not None:
            # An unreported stop may have no work to interrupt. The program's next line is interrupted then.
            self._is_interrupted = self._rank.stops.is_passing
            engine.interrupt()
        elif self._rank.stops.phase in (StopPhase.NONE, StopPhase.STEPPING):
            if engine is not None:
                engine.tracing.break_in()
            self._rank.break_in.stop(None)
