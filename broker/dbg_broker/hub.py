"""Where ranks and terminals meet: what comes in is looked up, decided by the pure modules, and sent on.

Nothing here waits: a peer that can't take a frame has it queued or dropped, and what is due later is due at a sweep or
by a timer. All methods belong to the event loop's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING

from dbg_broker import from_ranks, from_terminals
from dbg_broker.auth import Role, Tokens
from dbg_broker.connection import Connection
from dbg_broker.crashes import Crashes
from dbg_broker.frames import pack_data, pack_message
from dbg_broker.gather import Finished, Gather
from dbg_broker.holds import Holds
from dbg_broker.http import PAGES, Answer, Gauges, Meters, Upgrade, admit, page, path_of
from dbg_broker.links import RankLink, RankPeer, TerminalLink
from dbg_broker.listing import Listing
from dbg_broker.pace import Pace
from dbg_broker.probes import ProbeIntervals, ProbeSchedule
from dbg_broker.prompts import LINE_ENGINE
from dbg_broker.registry import Rank, Registry
from dbg_broker.sessions import Decision, Sessions
from dbg_broker.sweeper import Sweeper
from dbg_wire import limits
from dbg_wire.codec import UnknownType, decode
from dbg_wire.errors import PeerError, printable
from dbg_wire.messages import Message, Refusal, RefusalCode, Repaint, Seat, Sender, Welcome
from dbg_wire.version import PROTOCOL_MINOR, RELEASE

if TYPE_CHECKING:
    from dbg_broker.classic import Classic

logger = logging.getLogger("dbg_broker")

CLOSE_BAD_MESSAGE = 1002
CLOSE_SHUTDOWN = 1001
CLOSE_SLOW = 4001

MESSAGE_COST = 16
"""Bytes that a terminal's message counts beside its own: 7,000 keys a second pass, a flood of empty ones doesn't."""

MAX_PENDING = 4096
"""Connections without a first message; beyond it the oldest one goes, as honest peers take no second for theirs."""


class Hub:
    """Hold the broker's whole state, and move messages."""

    def __init__(
        self,
        *,
        tokens: Tokens,
        host: str,
        pid: int,
        kernel: str | None,
        clock: Callable[[], float],
        schedule: Callable[[float, Callable[[], None]], object],
        intervals: ProbeIntervals | None = None,
    ) -> None:
        self.kernel = kernel
        self.clock = clock
        self.schedule = schedule
        self.registry = Registry()
        self.sessions = Sessions()
        self.gather = Gather()
        self.probes = ProbeSchedule(intervals or ProbeIntervals())
        self.meters = Meters()
        self.ranks: dict[str, RankLink] = {}
        self.witnesses: dict[str, RankLink] = {}
        self.terminals: dict[int, TerminalLink] = {}
        self._links: dict[int, RankLink | TerminalLink] = {}
        self._pending: dict[int, tuple[Connection, float]] = {}
        self._tokens = tokens
        self._host, self._pid = host, pid
        self._started = clock()
        self.on_empty: Callable[[], None] | None = None
        self.on_unused: Callable[[], None] | None = None
        """Called when the last rank or terminal has gone; those that only ask for a page are neither."""
        self.classic: Classic | None = None
        self.listing = Listing(self.registry, self.sessions, self.terminals, clock, schedule)
        self.sweeper = Sweeper(self)
        self.holds = Holds(self.registry)
        self.crashes = Crashes()

    # ---------------------------------------------------------------------------------------------------- connections

    def accepted(self, connection: Connection) -> None:
        """Count a connection until its first message."""
        self._pending[connection.number] = (connection, self.clock() + limits.HANDSHAKE_SECONDS)
        if len(self._pending) > MAX_PENDING:
            oldest, _ = next(iter(self._pending.values()))
            self._give_up(oldest, "too many connections wait")

    def admit(self, connection: Connection, upgrade: Upgrade) -> Role | Answer:
        """Return the role in which this request may become a WebSocket, or what to answer instead."""
        path = path_of(upgrade.path)
        answer = page(path, self.meters, self._gauges()) if path in PAGES else None
        if answer is not None:
            return answer
        clients = len(self.terminals)
        decided = admit(upgrade, self._tokens, agents=len(self._links) - clients, clients=clients)
        if isinstance(decided, Answer):
            self.meters.refusals[decided.status] += 1
            path = printable(upgrade.path, 80)
            logger.info("a request of %s for %s is refused: %d", connection.peer, path, decided.status)
        return decided

    def opened(self, connection: Connection, role: Role) -> None:
        """Take a new WebSocket."""
        self.meters.handshakes += 1
        if role is Role.RANK:
            self._links[connection.number] = RankLink(connection)
        else:
            link = TerminalLink(connection, role, Pace(self.clock(), limits.MAX_INPUT_PER_SECOND))
            self._links[connection.number] = self.terminals[connection.number] = link

    def stand_in(self, peer: RankPeer, mark: str) -> RankLink:
        """Take what stands in for an agent as a rank's link, and return that; it registers next."""
        self._links[peer.number] = link = RankLink(peer, mark=mark)
        return link

    def failed(self, connection: Connection, reason: str) -> None:
        """Note that somebody who is none of us was here."""
        self.meters.failures += 1
        logger.info("the connection from %s is closed: %s", connection.peer, reason)

    def lost(self, connection: RankPeer) -> None:
        """Forget a connection; one that is forgotten already is no mistake."""
        self._pending.pop(connection.number, None)
        link = self._links.pop(connection.number, None)
        if isinstance(link, RankLink):
            from_ranks.left(self, link)
        elif isinstance(link, TerminalLink):
            del self.terminals[link.number]
            for finished in self.gather.drop_client(link.number):
                self.deliver(finished)
            self.carry_out(self.sessions.leave(link.number))
        if self.on_unused is not None and link is not None and not self._links:
            self.on_unused()
        if self.on_empty is not None and not self._links and not self._pending:
            self.on_empty()

    def overflowed(self, connection: Connection) -> None:
        """Note that a control message had no room."""
        if connection.number in self.terminals:
            self.close_slow(connection)
        else:
            logger.info("the rank at %s does not read; a message to it is dropped", connection.peer)

    def drained(self, connection: Connection) -> None:
        """Send what had no room."""
        link = self.terminals.get(connection.number)
        if link is None:
            return
        viewer = self.sessions.viewer(link.number)
        if connection.missed_output() and viewer is not None:
            if self._has_log(viewer.key):
                # Told where it sits, a terminal asks for what it has not had; nothing else may come for long.
                self._send_seat(link.number)
            else:
                self.want_repaint(viewer.key)
        self.listing.supply(link)

    def close_all(self) -> None:
        """Say goodbye to everyone."""
        for connection, _ in tuple(self._pending.values()):
            if not connection.is_open:
                connection.abort()
        for link in tuple(self._links.values()):
            link.connection.close(CLOSE_SHUTDOWN, "the broker shuts down")

    def close_slow(self, connection: Connection) -> None:
        """Close a terminal that doesn't read; what waits for it is dropped."""
        self.meters.disconnected += 1
        logger.info("the terminal at %s does not keep up and is disconnected", connection.peer)
        connection.close(CLOSE_SLOW, "the terminal did not keep up", flush=False)

    def give_up_overdue(self, now: float) -> None:
        """End connections that have said nothing for too long; they are in the order of their deadlines."""
        overdue = []
        for connection, deadline in self._pending.values():
            if deadline > now:
                break
            overdue.append(connection)
        for connection in overdue:
            self._give_up(connection, f"no first message within {limits.HANDSHAKE_SECONDS:g} s")

    @property
    def is_used(self) -> bool:
        """Tell whether any rank or terminal is there."""
        return bool(self._links)

    @property
    def connected(self) -> int:
        """Return how many connections there are, those without a first message included."""
        return len(self._links.keys() | self._pending.keys())

    # ------------------------------------------------------------------------------------------------- what they say

    def text_received(self, connection: Connection, text: str) -> None:
        """Take a control message: refuse it, or hand it to its method."""
        link = self._links.get(connection.number)
        if link is None:
            return
        try:
            if isinstance(link, RankLink):
                from_ranks.take(self, link, decode(text, Sender.AGENT))
            else:
                self._charge(link, len(text))
                from_terminals.take(self, link, decode(text, Sender.CLIENT))
        except UnknownType as error:
            self.refuse(connection, RefusalCode.UNKNOWN_TYPE, error.reason)
        except PeerError as error:
            self._close_bad(connection, error)

    def data_received(self, connection: Connection, data: bytes) -> None:
        """Take terminal bytes."""
        link = self._links.get(connection.number)
        try:
            if isinstance(link, RankLink):
                from_ranks.take_output(self, link, data)
            elif link is not None:
                self._charge(link, len(data))
                from_terminals.take_input(self, link, data)
        except PeerError as error:
            self._close_bad(connection, error)

    def welcome(self, connection: RankPeer, address: str | None = None, child: int | None = None) -> None:
        """Accept a peer's first message, or tell a rank its new address."""
        self._pending.pop(connection.number, None)
        message = Welcome(
            minor=PROTOCOL_MINOR,
            release=RELEASE,
            host=self._host,
            pid=self._pid,
            uptime=round(self.clock() - self._started, 3),
            address=address,
            child=child,
        )
        self.send(connection, message)

    # -------------------------------------------------------------------------------------------------------- sending

    def send(self, connection: RankPeer, message: Message, instead_of: Hashable = None) -> None:
        """Send a control message; a waiting one of the same name is replaced."""
        connection.send_message(message, instead_of)

    def refuse(self, connection: RankPeer, code: str, text: str) -> None:
        """Tell a peer which request can't be done and why."""
        self.send(connection, Refusal(code=code, text=printable(text, 500)))

    def tell_rank(self, key: str, message: Message, instead_of: Hashable = None) -> None:
        """Send a message to a rank, if it is connected."""
        link = self.ranks.get(key)
        if link is not None:
            self.send(link.connection, message, instead_of)

    def rank_changed(self, rank: Rank) -> None:
        """Tell other ranks what a change of this one means for them."""
        for key, chosen in self.holds.changed(rank):
            self.tell_rank(key, chosen, ("chosen", chosen.site))
        for key, kept in self.crashes.changed(rank):
            self.tell_rank(key, kept, "kept")

    def tell_terminals(self, key: str, message: Message, instead_of: Hashable = None) -> None:
        """Send a message to all terminals at a rank."""
        numbers = self.sessions.viewers(key)
        if numbers:
            frame = pack_message(message)
            for number in numbers:
                self.terminals[number].connection.send_control(frame, instead_of)

    def relay_output(self, key: str, data: bytes) -> None:
        """Pass a frame of terminal bytes to all terminals at a rank, unread; who is behind misses it."""
        self.meters.bytes_from_ranks += len(data)
        numbers = self.sessions.viewers(key)
        if not numbers:
            return
        frame = pack_data(data)
        for number in numbers:
            if self.terminals[number].connection.send_output(frame):
                self.meters.bytes_to_terminals += len(data)
            else:
                self.meters.dropped_frames += 1

    def want_repaint(self, key: str) -> None:
        """Ask a rank for its whole screen, now or as soon as its pace allows.

        A line debugger has a log instead, which terminals ask for from where they have it.
        """
        link = self.ranks.get(key)
        if link is None or self._has_log(key):
            return
        delay = link.repaints.want(self.clock())
        if delay == 0.0:
            self._repaint(key, link)
        elif delay is not None:
            self.schedule(delay, partial(self._repaint, key, link))

    def carry_out(self, decision: Decision) -> None:
        """Tell everyone what a change of seats means for them."""
        for key in decision.audiences:
            rank = self.registry.find(key)
            if rank is not None:
                audience = self.sessions.audience(key, rank.report.generation)
                self.tell_rank(key, audience, "audience")
                self.attend(key)
                self.listing.changed(key)
        for number in decision.seats:
            self._send_seat(number)

    def attend(self, key: str) -> None:
        """Probe a rank as often as it is looked at."""
        self.probes.attend(key, self.sessions.is_attended(key) or self.gather.is_asked(key), self.clock())

    def deliver(self, finished: Finished) -> None:
        """Send the answers to a question to the terminal that asked, as it can take them."""
        for key in finished.question.keys:
            self.attend(key)
        link = self.terminals.get(finished.client)
        if link is not None:
            link.answers.append(finished.pages())
            self.listing.supply(link)

    def _send_seat(self, number: int) -> None:
        viewer = self.sessions.viewer(number)
        rank = self.registry.find(viewer.key) if viewer else None
        if viewer is None or rank is None:
            return
        seat = Seat(
            rank=self.listing.info(rank),
            report=rank.report,
            generation=self.sessions.generation_of(number),
            driver=self.sessions.driver(viewer.key),
            watchers=self.sessions.watchers(viewer.key),
        )
        self.send(self.terminals[number].connection, seat)

    def _repaint(self, key: str, link: RankLink) -> None:
        link.repaints.sent(self.clock())
        if self.ranks.get(key) is link:
            self.meters.repaints += 1
            self.send(link.connection, Repaint(), "repaint")

    # ---------------------------------------------------------------------------------------------------------- inner

    def _has_log(self, key: str) -> bool:
        """Tell whether the rank's debugger is one whose output is a log."""
        link = self.ranks.get(key)
        session = link.rank.report.session if link is not None and link.rank is not None else None
        return session is not None and session.engine == LINE_ENGINE

    def _give_up(self, connection: Connection, reason: str) -> None:
        del self._pending[connection.number]
        self.failed(connection, reason)
        connection.abort()

    def _close_bad(self, connection: Connection, error: PeerError) -> None:
        logger.info("the connection from %s is closed: %s", connection.peer, error)
        self.refuse(connection, RefusalCode.BAD_MESSAGE, error.reason)
        connection.close(CLOSE_BAD_MESSAGE, error.reason)

    def _charge(self, link: TerminalLink, size: int) -> None:
        seconds = link.pace.spend(size + MESSAGE_COST, self.clock())
        if seconds > 0:
            link.connection.rest(seconds)

    def _gauges(self) -> Gauges:
        sessions, drivers, watchers = self.sessions.counts()
        return Gauges(
            ranks=self.registry.counts,
            terminals=len(self.terminals),
            sessions=sessions,
            drivers=drivers,
            watchers=watchers,
            pending=len(self._pending),
            uptime=self.clock() - self._started,
        )
