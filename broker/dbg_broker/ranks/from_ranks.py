"""Messages from ranks: connections that open and close, and one method for each message."""

from __future__ import annotations

import logging
import signal
import struct
from collections.abc import Callable, Mapping
from typing import Any

from dbg_broker.home.tokens import ANY_RANK, Bearer
from dbg_broker.net.outbox import Turns
from dbg_broker.net.websocket import CloseCode
from dbg_broker.ranks.guards import Guards, is_of_other_job
from dbg_broker.ranks.questions import Asked, EncodedAnswer
from dbg_broker.ranks.rank_record import RankLink, RankRecord
from dbg_broker.ranks.replicas import Replicas
from dbg_broker.ranks.table import RankTable
from dbg_broker.relay import weights
from dbg_broker.relay.relay import RankPeer, Relay, refuse
from dbg_broker.timers import Timers
from dbg_broker.welcome import Welcomes
from dbg_wire import limits
from dbg_wire.codec import encode
from dbg_wire.errors import PeerError
from dbg_wire.libraries import collective_of
from dbg_wire.messages import (
    Answer,
    Applied,
    Completions,
    Differs,
    Digests,
    Discarded,
    Goodbye,
    GuardReport,
    Message,
    Notice,
    Probe,
    ProbeReply,
    RefusalCode,
    Register,
    Replied,
    Report,
    Sender,
)
from dbg_wire.records.ranks import EndKind, RankState

logger = logging.getLogger("dbg_broker")

PULSE_BEGINS = encode(ProbeReply(where=None)).partition(",")[0]
"""Start of an encoded pulse, a rank's reply to a probe. A pulse that starts differently, as from another version of the
agent, is decoded at once.
"""

OUTPUT_KIND = 1
OUTPUT_HEADER = struct.calcsize(">BIQ")


class FromRanks:
    """Receiver of the messages of all ranks and guards, for the table of ranks."""

    sender = Sender.AGENT

    def __init__(self, timers: Timers, turns: Turns, relay: Relay, welcomes: Welcomes, table: RankTable) -> None:
        self._timers, self._relay, self._welcomes, self._table = timers, relay, welcomes, table
        self.asked = Asked(table, turns)
        self.guards = Guards(timers, relay, welcomes, table, self.asked)
        replicas = Replicas(relay.send)
        self.links: dict[int, RankLink] = {}
        """Connections of ranks and guards, by number."""
        self._methods: Mapping[type[Message], Callable[[RankRecord, Any], None]] = {
            Report: self._report,
            Applied: self._pass_on,
            Discarded: self._pass_on,
            Replied: self._pass_on,
            Completions: self._pass_on,
            Notice: self._notice,
            ProbeReply: self._pulse,
            Digests: replicas.digests,
            Differs: replicas.differs,
            Answer: self._answer,
            Goodbye: self._goodbye,
        }

    def link(self, peer: RankPeer, bearer: Bearer = ANY_RANK) -> RankLink:
        """Accept a connection of an agent, or of its substitute for a stock debugger; the registration follows."""
        self.links[peer.number] = link = RankLink(peer, bearer)
        return link

    def left(self, link: RankLink) -> None:
        """Forget the closed connection of a rank or guard."""
        logger.debug("connection %d: closed", link.connection.number)
        self.links.pop(link.connection.number, None)
        self.guards.left(link)
        self.asked.rank_left(link)

    def receive(self, link: RankLink, message: Message) -> None:
        """Handle a message of a rank or guard. Raise PeerError if it breaks the protocol."""
        if isinstance(message, GuardReport):
            self.guards.handle_guard_report(link, message)
        elif link.guard_of is not None:
            self.guards.receive(link, message)
        elif isinstance(message, Register):
            self._register(link, message)
        elif link.rank is None:
            raise PeerError("the first message of a rank is not `register`")
        else:
            self._table.heard(link.rank)
            self._methods[type(message)](link.rank, message)

    def drained(self, link: RankLink) -> None:
        """Do nothing when a rank reads again, because ranks repeat their requests by themselves."""

    def overflowed(self, link: RankLink) -> None:
        """Log that a rank does not read its messages."""
        logger.info("rank at %s does not read; a message to it was dropped", link.connection.peer)

    def keeps_unread(self, link: RankLink, text: str) -> bool:
        """Store a pulse (reply to a probe) undecoded if it changes nothing and no terminal is attached.

        Such a pulse only shows that its rank's interpreter runs. Return True if it was stored.
        """
        rank = link.rank
        if rank is None or not text.startswith(PULSE_BEGINS) or len(text) > weights.MAX_BYTES[ProbeReply]:
            return False
        if rank.steps or rank.waits_in or self._relay.seats.is_attended(rank.key):
            return False
        self._table.heard(rank)
        rank.keep_pulse(text)
        return True

    def receive_data(self, link: RankLink, data: bytes) -> None:
        """Pass terminal output to the terminals undecoded. Raise PeerError if the frame is invalid."""
        if link.rank is None:
            raise PeerError("terminal output before `register`")
        if len(data) < OUTPUT_HEADER or data[0] != OUTPUT_KIND:
            raise PeerError("a binary frame that is not terminal output")
        if len(data) > OUTPUT_HEADER + limits.MAX_DATA_BYTES:
            raise PeerError(f"a binary frame of {len(data)} bytes, above {OUTPUT_HEADER + limits.MAX_DATA_BYTES}")
        self._table.heard(link.rank)
        key = link.rank.key
        self._relay.output(key, data, limits.MAX_SCREEN_BACKLOG if self._table.is_redrawn(key) else None)

    # ---------------------------------------------------------------------------------------------------- registrations

    def _register(self, link: RankLink, message: Register) -> None:
        if link.rank is not None and link.rank.key != message.identity.key:
            raise PeerError("a second `register` with another key")
        if is_of_other_job(link, message.identity.key, message) or self._is_impostor(link, message):
            return
        registration = self._table.registry.register(message, self._timers.clock())
        rank = registration.rank
        if registration.gone is not None:
            why = f"its process is {rank.address} of job {rank.identity.job} now"
            self._table.forget(registration.gone, why)
        former = self._table.links.get(rank.key)
        if former is not None and former is not link:
            self._replace(former, rank.key)
        self._table.came(link, rank)
        self._welcomes.send(link.connection, rank.address, rank.child)
        self._table.readdress(registration.renamed)
        self._table.changed(rank)
        self._table.seat_changed(self._relay.seats.rank_came(rank.key, message.report.generation))
        if message.report.session is not None and self._relay.seats.viewers(rank.key):
            # Terminals did not receive the output that the rank drew while it was disconnected.
            self._table.want_repaint(rank.key)
        logger.info("%s (%s) is %s", rank.address, rank.key, rank.state.value)

    def _is_impostor(self, link: RankLink, message: Register) -> bool:
        """Reject a process that registers under another process's key. Return True if it was rejected.

        The new process gets the key if the other process is not connected, or if the other process's host is silent.
        Terminals that were attached to the other process are notified and may attach again.
        """
        known = self._table.registry.find(message.identity.key)
        if known is None or known.is_same_process(message.secret):
            return False
        former = self._table.links.get(known.key)
        if former is not None and former.connection.seconds_since_ack() < limits.SILENT_SECONDS:
            text = f"another process is {known.address}, and it is connected"
            refuse(link.connection, RefusalCode.TAKEN, text)
            link.connection.close(CloseCode.DONE, "another process is connected as this rank")
            return True
        if former is not None:
            former.connection.abort()
            self.asked.rank_left(former)
        if (guard := self._table.guards.get(known.key)) is not None:
            guard.connection.abort()
            self.guards.left(guard)
        self._table.registry.forget(known)
        self._table.forget(known.key, f"another process is {known.address} now; attach again to debug it")
        return False

    def _replace(self, former: RankLink, key: str) -> None:
        """Close a rank's former connection after a newer one took over, and answer its open questions as lost."""
        former.rank = None
        former.connection.close(CloseCode.REPLACED, "this rank has opened a newer connection")
        self.asked.rank_ended(key, "it has reconnected")

    # ------------------------------------------------------------------------------------------------ other messages

    def _report(self, rank: RankRecord, message: Report) -> None:
        if message.report.state is not RankState.RUNNING:
            rank.will_stop = False
        is_listed_anew = self._table.registry.report(rank, message.report, self._timers.clock())
        self._table.changed(rank, is_listed_anew=is_listed_anew)
        self._relay.notify(rank.key, message)
        if not rank.steps:
            rank.waits_in = ""
        else:
            # The reply to the probe has the stack, which shows whether the step is inside a collective that waits for
            # other ranks.
            self._relay.send(rank.key, Probe(), "probe")

    def _pass_on(self, rank: RankRecord, message: Applied | Discarded | Replied | Completions) -> None:
        self._relay.notify(rank.key, message)

    def _notice(self, rank: RankRecord, message: Notice) -> None:
        if message.is_log:
            self._table.logged(rank, message)
        else:
            self._relay.notify(rank.key, message)

    def _pulse(self, rank: RankRecord, message: ProbeReply) -> None:
        rank.note_pulse(message)
        waits_in = collective_of(message.frames) if rank.steps else ""
        if waits_in != rank.waits_in:
            rank.waits_in = waits_in
            self._table.line_changed(rank.key)
        self._relay.notify(rank.key, message, "pulse")

    def _answer(self, rank: RankRecord, message: Answer) -> None:
        self.asked.answer(rank.key, message.request, EncodedAnswer(message.kind, bytes(message.body), message.age))

    def _goodbye(self, rank: RankRecord, message: Goodbye) -> None:
        registry = self._table.registry
        registry.goodbye(rank, message.exit, self._timers.clock())
        if message.frames or message.error:
            rank.frames, rank.end.error = message.frames, message.error
        if message.finalizes:
            rank.end.kind = EndKind.FINALIZES
        if message.exit == -signal.SIGKILL and rank.end.cause:
            rank.end.signal = signal.SIGKILL
            registry.killed(rank)
        self._table.probes.remove(rank.key)
        self.asked.rank_ended(rank.key, "the process has ended")
        self._table.changed(rank)
        self._table.note_failure(rank)
