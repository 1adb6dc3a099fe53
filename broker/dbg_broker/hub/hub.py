"""Where ranks and terminals meet: what comes in is looked up, decided by the pure modules, and sent on.

Nothing here waits: a peer that can't take a frame has it queued or dropped, and what is due later is due at a sweep or
by a timer. All methods belong to the event loop's thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING

from dbg_broker.home.tokens import Role, Tokens
from dbg_broker.hub import from_ranks, from_terminals
from dbg_broker.hub.from_line_terminals import LINE_ENGINE
from dbg_broker.hub.links import RankLink, RankPeer, TerminalLink, Unread
from dbg_broker.hub.listing import Listing
from dbg_broker.hub.sweeper import Sweeper
from dbg_broker.net import tcp
from dbg_broker.net.arrivals import Arrivals
from dbg_broker.net.capacity import Capacity
from dbg_broker.net.connection import Connection
from dbg_broker.net.frames import pack_data, pack_message
from dbg_broker.net.http import PAGES, Answer, Connected, Gauges, Meters, Upgrade, admit, page, path_of, path_shown
from dbg_broker.net.rate import Pace
from dbg_broker.net.turns import Turns
from dbg_broker.net.unfinished import MESSAGE_SECONDS, Unfinished
from dbg_broker.ranks.crashes import Crashes
from dbg_broker.ranks.holds import Holds
from dbg_broker.ranks.probe_schedule import ProbeIntervals, ProbeSchedule
from dbg_broker.ranks.questions import Finished, Gather
from dbg_broker.ranks.registry import Rank, Registry
from dbg_broker.ranks.spread import Spread
from dbg_broker.terminals.glances import Glances
from dbg_broker.terminals.seats import Decision, Sessions
from dbg_wire import limits
from dbg_wire.codec import UnknownType, decode
from dbg_wire.errors import PeerError, printable
from dbg_wire.log_form import LogForm
from dbg_wire.messages import Message, Refusal, RefusalCode, Repaint, Seat, Sender, Welcome
from dbg_wire.version import PROTOCOL_MINOR, RELEASE

if TYPE_CHECKING:
    from dbg_broker.classic.sessions import Classic

logger = logging.getLogger("dbg_broker")

CLOSE_BAD_MESSAGE = 1002
CLOSE_SHUTDOWN = 1001
CLOSE_SLOW = 4001
CLOSE_GIVES_WAY = 4002

KEYS_COST = 16
"""Bytes that a terminal's keys count beside their own: 7,000 keys a second pass, a flood of empty frames doesn't."""

MESSAGE_COST = 256
"""Bytes that a terminal's control message counts beside its own: a thousand a second, which cost 4 % of the broker."""

RANK_MESSAGE_COST = 2 * limits.KIB
"""Bytes that a rank's control message counts beside its own: 2,000 a second, far above what keys and steps lead to."""

RANK_OUTPUT_COST = 256
"""Bytes that a frame of output counts: its content is passed on unread, so that only the number of frames costs."""


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
        capacity: Capacity | None = None,
    ) -> None:
        self.kernel = kernel
        self.clock = clock
        self.schedule = schedule
        self.registry = Registry()
        self.sessions = Sessions()
        self.gather = Gather()
        self.glances = Glances()
        self.probes = ProbeSchedule(intervals or ProbeIntervals())
        self.meters = Meters()
        self.ranks: dict[str, RankLink] = {}
        self.witnesses: dict[str, RankLink] = {}
        self.terminals: dict[int, TerminalLink] = {}
        self._links: dict[int, RankLink | TerminalLink] = {}
        self._watchers: dict[int, None] = {}
        self._capacity = capacity or Capacity()
        self._arrivals: Arrivals[Connection] = Arrivals(self._capacity)
        self._unfinished = Unfinished()
        self._tokens = tokens
        self._host, self._pid = host, pid
        self._started = clock()
        self.on_empty: Callable[[], None] | None = None
        self.on_unused: Callable[[], None] | None = None
        """Called when the last rank or terminal has gone; those that only ask for a page are neither."""
        self.classic: Classic | None = None
        self.listing = Listing(
            self.registry, self.sessions, self.terminals, self.gather, clock=clock, schedule=schedule
        )
        self.sweeper = Sweeper(self)
        self.holds = Holds(self.registry)
        self.crashes = Crashes()
        self.turns = Turns(time.thread_time, schedule)
        self.spread = Spread((self.holds, self.crashes), pack_message, self._tell_frame, clock, schedule)

    # ---------------------------------------------------------------------------------------------------- connections

    @property
    def can_accept(self) -> bool:
        """Tell whether one more connection may come now."""
        return self._arrivals.has_room(self.clock())

    def accepted(self, connection: Connection) -> None:
        """Count a connection until its first message; where too many wait, the oldest one goes."""
        logger.debug("connection %d comes from %s", connection.number, connection.peer)
        oldest = self._arrivals.come(connection.number, connection, tcp.host_of(connection.peer), self.clock())
        if oldest is not None:
            self._give_up(oldest, "too many connections wait")

    def admit(self, connection: Connection, upgrade: Upgrade) -> Role | Answer:
        """Return the role in which this request may become a WebSocket, or what to answer instead."""
        path = path_of(upgrade.path)
        answer = page(upgrade.path, self.meters, self._gauges(), self._tokens) if path in PAGES else None
        if answer is not None:
            return answer
        clients, watchers = len(self.terminals), len(self._watchers)
        connected = Connected(ranks=len(self._links) - clients, drivers=clients - watchers, watchers=watchers)
        decided = admit(upgrade, self._tokens, connected, self._capacity)
        if isinstance(decided, Answer):
            self.meters.refusals[decided.status] += 1
            shown = path_shown(upgrade.path)
            logger.info("a request of %s for %s is refused: %d", connection.peer, shown, decided.status)
        return decided

    def opened(self, connection: Connection, role: Role) -> None:
        """Take a new WebSocket."""
        logger.debug("connection %d is open, for a %s", connection.number, role.value)
        self.meters.handshakes += 1
        if role is Role.RANK:
            self._links[connection.number] = RankLink(connection, self._rank_pace())
        else:
            link = TerminalLink(connection, role, Pace(self.clock(), limits.MAX_INPUT_PER_SECOND))
            self._links[connection.number] = self.terminals[connection.number] = link
            if role is Role.WATCHER:
                self._watchers[connection.number] = None
            elif len(self.terminals) > self._capacity.clients and self._watchers:
                self.give_way(next(reversed(self._watchers)), "the broker is full, and a terminal that may type came")

    def give_way(self, number: int, why: str) -> None:
        """Close a terminal that only looks, since its place is needed."""
        connection = self.terminals[number].connection
        logger.info("the terminal at %s gives way: %s", connection.peer, why)
        self.refuse(connection, RefusalCode.FULL, why)
        connection.close(CLOSE_GIVES_WAY, why)
        # Its place is free now, whenever it takes note of that.
        self.lost(connection)

    def stand_in(self, peer: RankPeer, mark: str) -> RankLink:
        """Take what stands in for an agent as a rank's link, and return that; it registers next."""
        self._links[peer.number] = link = RankLink(peer, self._rank_pace(), mark=mark)
        return link

    def failed(self, connection: Connection, reason: str) -> None:
        """Note that somebody who is none of us was here; for the same connection again nothing more is noted."""
        if connection.has_failed:
            # Given up in its TLS handshake, which then ends.
            return
        connection.has_failed = True
        self.meters.failures += 1
        logger.info("the connection from %s is closed: %s", connection.peer, reason)

    def lost(self, connection: RankPeer) -> None:
        """Forget a connection; one that is forgotten already is no mistake."""
        logger.debug("connection %d has ended", connection.number)
        self._arrivals.leave(connection.number)
        self._unfinished.drop(connection.number)
        link = self._links.pop(connection.number, None)
        if isinstance(link, RankLink):
            from_ranks.left(self, link)
        elif isinstance(link, TerminalLink):
            del self.terminals[link.number]
            self._watchers.pop(link.number, None)
            for finished in self.gather.drop_client(link.number):
                self.deliver(finished)
            self.carry_out(self.sessions.leave(link.number))
        if self.on_unused is not None and link is not None and not self._links:
            self.on_unused()
        if self.on_empty is not None and not self._links and not self._arrivals:
            self.on_empty()

    def overflowed(self, connection: Connection) -> None:
        """Note that a control message had no room."""
        if connection.number in self.terminals:
            self.close_slow(connection)
        else:
            logger.info("the rank at %s does not read; a message to it is dropped", connection.peer)

    def unfinished(self, connection: Connection, size: int, *, is_new: bool) -> None:
        """Count the bytes of a message that is not complete; where all are too many, the connection goes with most."""
        if connection.number not in self._links:
            return
        self._unfinished.note(connection.number, size, self.clock(), is_new=is_new)
        while (number := self._unfinished.heaviest()) is not None:
            self._end_unfinished(number, "messages that are not complete take too much memory, most of it here").abort()

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
        for connection in self._arrivals.connections():
            if not connection.is_open:
                connection.abort()
        for link in tuple(self._links.values()):
            link.connection.close(CLOSE_SHUTDOWN, "the broker shuts down")

    def close_slow(self, connection: Connection) -> None:
        """Close a terminal that doesn't read; what waits for it is dropped."""
        self.meters.disconnected += 1
        logger.info("the terminal at %s does not keep up and is disconnected", connection.peer)
        connection.close(CLOSE_SLOW, "the terminal did not keep up", flush=False)

    def drop_silent(self, connection: Connection) -> None:
        """End the connection of a terminal of which nothing is heard; its seat is free."""
        self.meters.disconnected += 1
        logger.info("the terminal at %s is silent and is disconnected", connection.peer)
        connection.abort()

    def give_up_overdue(self, now: float) -> None:
        """End connections that have said nothing for too long."""
        for connection in self._arrivals.overdue(now, limits.HANDSHAKE_SECONDS):
            self._give_up(connection, f"no first message within {limits.HANDSHAKE_SECONDS:g} s")
        for number in self._unfinished.overdue(now):
            self._end_unfinished(number, f"a message was not complete within {MESSAGE_SECONDS:g} s")

    @property
    def is_used(self) -> bool:
        """Tell whether any rank or terminal is there."""
        return bool(self._links)

    @property
    def connected(self) -> int:
        """Return how many connections there are, those without a first message included."""
        return len(self._links.keys() | self._arrivals.numbers())

    # ------------------------------------------------------------------------------------------------- what they say

    def has_bytes(self, connection: Connection) -> bool:
        """Have a connection read what came, now or when it is its turn; return whether it waits for that."""
        return self.turns.take(connection, types=self._types(connection))

    def text_received(self, connection: Connection, text: str) -> None:
        """Take a control message: refuse it, or hand it to its method."""
        link = self._links.get(connection.number)
        if link is None:
            return
        try:
            is_rank = isinstance(link, RankLink)
            self._charge(connection, link.pace, len(text) + (RANK_MESSAGE_COST if is_rank else MESSAGE_COST))
            message = decode(text, Sender.AGENT if is_rank else Sender.CLIENT)
            logger.debug("connection %d says %s", connection.number, LogForm(message))
            if isinstance(link, RankLink):
                from_ranks.take(self, link, message)
            else:
                from_terminals.take(self, link, message)
        except UnknownType as error:
            self.refuse(connection, RefusalCode.UNKNOWN_TYPE, error.reason)
        except PeerError as error:
            self._close_bad(connection, error)

    def data_received(self, connection: Connection, data: bytes) -> None:
        """Take terminal bytes."""
        link = self._links.get(connection.number)
        try:
            if isinstance(link, RankLink):
                self._charge(connection, link.pace, RANK_OUTPUT_COST)
                from_ranks.take_output(self, link, data)
            elif link is not None:
                self._charge(connection, link.pace, len(data) + KEYS_COST)
                from_terminals.take_input(self, link, data)
        except PeerError as error:
            self._close_bad(connection, error)

    def frame_received(self, connection: Connection) -> None:
        """Note a frame that is no message, and costs as much as one."""
        link = self._links.get(connection.number)
        if link is not None:
            self._charge(connection, link.pace, RANK_MESSAGE_COST if isinstance(link, RankLink) else MESSAGE_COST)

    def welcome(self, connection: RankPeer, address: str | None = None, child: int | None = None) -> None:
        """Accept a peer's first message, or tell a rank its new address."""
        self._arrivals.leave(connection.number)
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
        """Tell a peer which request can't be done and why; one that reads none of its refusals is closed."""
        if not connection.send_message(Refusal(code=code, text=printable(text, 500))):
            connection.close(CLOSE_SLOW, "it does not read why its requests are refused", flush=False)

    def tell_rank(self, key: str, message: Message, instead_of: Hashable = None) -> None:
        """Send a message to a rank, if it is connected."""
        link = self.ranks.get(key)
        if link is not None:
            self.send(link.connection, message, instead_of)

    def rank_changed(self, rank: Rank) -> None:
        """Tell other ranks what a change of this one means for them."""
        logger.debug("rank %s is %s", printable(rank.key), rank.state.value)
        is_news = [self.holds.changed(rank), self.crashes.changed(rank)]
        if any(is_news):
            self.spread.changed()

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
            link.answers.append(Unread(finished, finished.pages()))
            self.listing.supply(link)

    def bound_answers(self) -> None:
        """Close the terminal for which most answers wait, as long as all together have too many."""
        while (number := self.gather.budget.heaviest()) is not None:
            self.gather.budget.drop(number)
            if (link := self.terminals.get(number)) is not None:
                logger.info("the terminal at %s is closed: it has most of too many answers", link.connection.peer)
                link.connection.close(CLOSE_SLOW, "its answers take too much memory; ask fewer ranks", flush=False)
                # A terminal that doesn't read takes no note of the close: its open questions would go on to gather
                # answers, and these be held against the terminals that read.
                self.lost(link.connection)

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

    def _tell_frame(self, frame: bytes, key: str, name: Hashable) -> None:
        """Send a frame that many ranks get; one that is behind is told all of it later instead of what changed."""
        link = self.ranks.get(key)
        if link is None or not isinstance(link.connection, Connection):
            # Gone, or a stock session, which waits for nobody.
            return
        if name is not None or link.connection.is_ready:
            link.connection.send_control(frame, name)
        else:
            self.holds.missed(key)

    def _types(self, connection: Connection) -> bool:
        """Tell whether keys come on this connection, or their echo."""
        link = self._links.get(connection.number)
        if isinstance(link, RankLink):
            return link.rank is not None and self.sessions.driver(link.rank.key) is not None
        return link is not None and self.sessions.generation_of(link.number) is not None

    def _has_log(self, key: str) -> bool:
        """Tell whether the rank's debugger is one whose output is a log."""
        link = self.ranks.get(key)
        session = link.rank.report.session if link is not None and link.rank is not None else None
        return session is not None and session.engine == LINE_ENGINE

    def _give_up(self, connection: Connection, reason: str) -> None:
        self._arrivals.leave(connection.number)
        self.failed(connection, reason)
        connection.abort()

    def _end_unfinished(self, number: int, reason: str) -> RankPeer:
        self._unfinished.drop(number)
        connection = self._links[number].connection
        logger.info("the connection from %s is closed: %s", connection.peer, reason)
        connection.close(CLOSE_SLOW, reason, flush=False)
        return connection

    def _close_bad(self, connection: Connection, error: PeerError) -> None:
        logger.info("the connection from %s is closed: %s", connection.peer, error)
        self.refuse(connection, RefusalCode.BAD_MESSAGE, error.reason)
        connection.close(CLOSE_BAD_MESSAGE, error.reason)

    def _rank_pace(self) -> Pace:
        return Pace(self.clock(), limits.MAX_REPORTED_PER_SECOND)

    def _charge(self, connection: Connection, pace: Pace, size: int) -> None:
        seconds = pace.spend(size, self.clock())
        if seconds > 0:
            connection.rest(seconds)

    def _gauges(self) -> Gauges:
        sessions, drivers, watchers = self.sessions.counts()
        return Gauges(
            ranks=self.registry.counts,
            terminals=len(self.terminals),
            sessions=sessions,
            drivers=drivers,
            watchers=watchers,
            pending=len(self._arrivals),
            uptime=self.clock() - self._started,
        )
