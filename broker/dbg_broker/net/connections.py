"""All connections of a server, from accept to end: which may wait, whose turn it is, and what they keep in memory.

What their messages mean is the business of the :class:`Handlers`. All methods belong to the event loop's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol

from dbg_broker.home.bearer import Bearer
from dbg_broker.net.connection import PeerConnection
from dbg_broker.net.handshakes import Handshakes
from dbg_broker.net.http import HttpAnswer, Upgrade
from dbg_broker.net.loop import LoopTimes
from dbg_broker.net.metrics import Budget, Meters, Payer
from dbg_broker.net.places import Arrivals, Capacity, RankPlaces
from dbg_broker.net.reputation import Reputation, network_of
from dbg_broker.net.spare import SpareDescriptors, SpareMemory
from dbg_broker.net.tcp import host_of
from dbg_broker.net.transport import SocketTransport
from dbg_broker.net.turns import Entrance, Turns
from dbg_broker.net.websocket import MESSAGE_SECONDS, CloseCode, Unfinished
from dbg_broker.quotas import TokenBucket
from dbg_broker.timers import Timers
from dbg_wire import limits
from dbg_wire.messages import Message

logger = logging.getLogger("dbg_broker")


class Channel(Protocol):
    """Channel to a terminal: its own connection, or the way to it by the broker that it is connected to."""

    number: int
    peer: str
    heard_at: float

    @property
    def is_ready(self) -> bool:
        """Tell whether a frame sent now would not wait."""

    def send_message(self, message: Message, instead_of: Hashable = None) -> bool:
        """Send a control message, or let it wait its turn; it replaces a waiting one of the same name.

        Return False if it had no room.
        """

    def send_control(self, frame: bytes, instead_of: Hashable = None) -> bool:
        """Send a control message in its form on the wire, as :meth:`send_message` does."""

    def send_output(self, frame: bytes, most: int | None = None) -> bool:
        """Send terminal output, or let it wait beside no more than ``most`` bytes; False if it was dropped."""

    def missed_output(self) -> bool:
        """Tell, once, that output was dropped and the peer can take a repaint."""

    def ping(self) -> None:
        """Ask the peer for a sign of life, unless that would have to wait."""

    def rest(self, seconds: float) -> None:
        """Read nothing for a while."""

    def close(self, code: int, reason: str, *, flush: bool = True) -> None:
        """Close with a code and a sentence; what waits goes out before, unless ``flush`` is False."""

    def abort(self) -> None:
        """End the connection at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handlers:
    """What is done with connections by those who know what is said on them."""

    admit: Callable[[PeerConnection, Upgrade], Bearer | HttpAnswer | None]
    """Return who may have a WebSocket for this request, or what to answer instead; None if the answer comes later.

    A later answer is given to the connection's ``respond``.
    """
    opened: Callable[[PeerConnection, Bearer], None]
    """Take a new WebSocket."""
    types: Callable[[PeerConnection], bool]
    """Tell whether keys come on this connection, or their echo."""
    text: Callable[[Channel, str], None]
    """Take a control message."""
    data: Callable[[Channel, bytes], None]
    """Take terminal bytes."""
    frame: Callable[[PeerConnection], None]
    """Note a frame that is no message: a ping, a pong, or a part of one."""
    drained: Callable[[Channel], None]
    """Send what had no room."""
    overflowed: Callable[[Channel], None]
    """Note that a control message had no room."""
    lost: Callable[[PeerConnection], None]
    """Forget a connection."""
    sweep: Callable[[float], None]
    """Do what is due by the clock."""
    close_all: Callable[[Callable[[], None]], None]
    """Close all connections, and make a call when none is left, at once if there is none."""
    abort_all: Callable[[], None]
    """End at once what ``close_all`` has not closed."""


class Connections:
    """The connections that a server has accepted, and the bounds of what they may use."""

    handlers: Handlers
    """Set before the first connection comes."""

    def __init__(
        self,
        timers: Timers,
        capacity: Capacity | None = None,
        times: LoopTimes | None = None,
        memory: SpareMemory | None = None,
    ) -> None:
        self.timers = timers
        self.capacity = capacity or Capacity()
        self.descriptors, self.memory = SpareDescriptors(timers.clock), memory or SpareMemory(timers.clock)
        self.meters = Meters()
        self.times = times or LoopTimes(timers.clock, timers.spent)
        self.arrivals: Arrivals[PeerConnection] = Arrivals(self.capacity, lambda: self.lacks)
        self.unfinished = Unfinished()
        self.rank_places = RankPlaces(self.capacity.ranks)
        self.turns = Turns(timers)
        self.entrance = Entrance(timers)
        self.handshakes = Handshakes(timers)
        self.reputation = Reputation()
        self.open: dict[int, PeerConnection] = {}
        """Those with a WebSocket, by number."""

    @property
    def lacks(self) -> str:
        """Return what the broker lacks to take newcomers, as a sentence; empty if it has enough."""
        return self.descriptors.lack.why or self.memory.lack.why

    # ------------------------------------------------------------------------------------------------------ newcomers

    def can_accept(self, in_kernel: Callable[[], int]) -> bool:
        """Tell whether one more connection may come now; ``in_kernel`` returns how many wait to be accepted."""
        return self.arrivals.has_room(self.timers.clock(), in_kernel)

    def make_room(self, error: OSError) -> bool:
        """Have a descriptor free for an accept that found none: a spare one, or soon that of the oldest newcomer.

        Return whether accept may be tried again at once.
        """
        if self.descriptors.lend(error):
            return True
        oldest = self.arrivals.oldest(self.timers.clock())
        if oldest is not None:
            self._give_up(oldest, Budget.WAITING, "too many connections wait")
        return False

    def turns_back(self, peer: str) -> bool:
        """Tell whether a peer is to be closed at once, and count it: it has done nothing wrong, and comes again."""
        is_too_many = self.arrivals.turns_back(network_of(host_of(peer)), self.timers.clock())
        if is_too_many:
            self.meters.budgets.hit(Payer.STRANGER, Budget.WAITING)
        return is_too_many

    def turned_away(self, peer: str) -> None:
        """Count a peer whose address is not allowed; its connection is closed already."""
        self.meters.turned_away += 1
        logger.info("a connection from %s is closed: --allow does not name its address", peer)

    def accepted(self, connection: PeerConnection) -> None:
        """Count a connection until its first message; if too many wait, one of them is closed."""
        logger.debug("connection %d comes from %s", connection.number, connection.peer)
        too_many = self.arrivals.come(connection.number, connection, connection.network, self.timers.clock())
        if too_many is not None:
            self._close_one(*too_many)

    def _close_one(self, connection: PeerConnection, budget: Budget | None) -> None:
        """Close one of those that wait; without a bound its peer has done nothing wrong, and comes again."""
        if budget is not None:
            self._give_up(connection, budget, "too many connections wait")
            return
        self.meters.budgets.hit(Payer.STRANGER, Budget.WAITING)
        self.arrivals.leave(connection.number)
        connection.stranger.has_failed = True
        connection.abort()

    def shakes_hands(self, connection: PeerConnection, transport: SocketTransport) -> None:
        """Have a connection's TLS handshake go on when it is its turn."""
        self.arrivals.has_said(connection.number)
        is_slow = self.reputation.is_slow(connection.network, self.timers.clock())
        if not transport.is_answered:
            self.handshakes.submit(transport, connection.network, is_slow=is_slow)
            return

        def work(_is_over: Callable[[], bool]) -> bool:
            transport.shake()
            transport.take_back()
            return False

        # First among those of its address: much was spent on it already.
        self.entrance.submit(work, connection.network, is_slow=is_slow, is_ahead=True)

    def failed(self, connection: PeerConnection, reason: str) -> None:
        """Count a stranger, once for each connection: what came was no request for a WebSocket of the broker."""
        if connection.stranger.has_failed:
            # It was given up during its TLS handshake, and counted then.
            return
        connection.stranger.has_failed = True
        self.meters.failures += 1
        self.reputation.failed(connection.network, self.timers.clock())
        logger.info("the connection from %s is closed: %s", connection.peer, reason)

    # ----------------------------------------------------------------------------------------------------- what comes

    def opened(self, connection: PeerConnection, bearer: Bearer) -> None:
        """Take a new WebSocket."""
        logger.debug("connection %d is open, for %s", connection.number, bearer.shown)
        self.meters.handshakes += 1
        self.reputation.succeeded(connection.network, self.timers.clock())
        self.open[connection.number] = connection
        self.arrivals.admit(connection.number)
        self.handlers.opened(connection, bearer)

    def has_bytes(self, connection: PeerConnection) -> bool:
        """Have a connection read what came, now or when it is its turn; return whether it waits for its turn."""
        if connection.account is not None:
            return self.turns.submit(connection.work, connection.account, types=self.handlers.types(connection))
        self.arrivals.has_said(connection.number)
        is_slow = self.reputation.is_slow(connection.network, self.timers.clock())
        self.entrance.submit(connection.work, connection.network, is_slow=is_slow)
        return True

    def is_owed(self, connection: PeerConnection) -> None:
        """Note that a connection that waits for its first message is to say something now."""
        self.arrivals.owes(connection.number, self.timers.clock())

    def note_unfinished(self, connection: PeerConnection, size: int, *, is_new: bool) -> None:
        """Count the bytes of a message that is not complete; if all are too many, close the connection with most.

        ``is_new`` tells that a message was completed since the last call.
        """
        if connection.number not in self.open:
            return
        self.unfinished.note(connection.number, size, self.timers.clock(), is_new=is_new)
        while (number := self.unfinished.heaviest()) is not None:
            self._end_unfinished(number, "messages that are not complete take too much memory, most of it here").abort()

    def charge(self, connection: Channel, rate: TokenBucket, cost: int) -> None:
        """Count what a message or request costs; beyond its rate a connection is read later."""
        seconds = rate.spend(cost, self.timers.clock())
        if seconds > 0:
            connection.rest(seconds)

    def left(self, number: int) -> None:
        """Forget a connection; an unknown one is no error."""
        self.arrivals.leave(number)
        self.unfinished.drop(number)
        self.rank_places.leave(number)
        connection = self.open.pop(number, None)
        if connection is not None and connection.account is not None:
            self.turns.forget(connection.account)

    def sweep(self, late: float) -> None:
        """Do what is due by the clock, ``late`` seconds after its time."""
        self.times.timer_ran(late)
        now = self.timers.clock()
        self.descriptors.refill()
        self.arrivals.pace.look(self.meters.handshakes, len(self.arrivals), now)
        while (too_many := self.arrivals.surplus(now)) is not None:
            self._close_one(*too_many)
        for connection in self.arrivals.overdue(now, limits.HANDSHAKE_SECONDS):
            reason = f"no first message within {limits.HANDSHAKE_SECONDS:g} s"
            self._give_up(connection, Budget.HANDSHAKE_SECONDS, reason)
        for number in self.unfinished.overdue(now):
            self._end_unfinished(number, f"a message was not complete within {MESSAGE_SECONDS:g} s")
        self.handlers.sweep(now)

    def _give_up(self, connection: PeerConnection, budget: Budget, reason: str) -> None:
        self.meters.budgets.hit(Payer.STRANGER, budget)
        self.arrivals.leave(connection.number)
        self.failed(connection, reason)
        connection.abort()

    def _end_unfinished(self, number: int, reason: str) -> PeerConnection:
        self.unfinished.drop(number)
        connection = self.open[number]
        logger.info("the connection from %s is closed: %s", connection.peer, reason)
        connection.close(CloseCode.SLOW, reason, flush=False)
        return connection
