"""One broker's part in a cluster: it joins members, owners, mirror and legs to the hub."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from dbg_broker.hub import notices
from dbg_broker.hub.cluster.legs import Legs
from dbg_broker.hub.cluster.members import HEARTBEAT_SECONDS, Addresses, Members, Presence, read_presence
from dbg_broker.hub.cluster.messages import CloseLeg, ClusterMessage, Hello, LogText, decode, encode
from dbg_broker.hub.cluster.mirror import ChangeFeed, Mirror
from dbg_broker.hub.cluster.owners import Owners
from dbg_broker.hub.cluster.remote_terminal import HostedLegs
from dbg_broker.hub.cluster.tokens import SharedTokens
from dbg_broker.net.bus.buckets import BucketName
from dbg_broker.net.bus.bus import Bus, BusHandlers
from dbg_broker.net.loop import Tasks
from dbg_broker.net.metrics import ClusterFigures
from dbg_broker.net.websocket import CloseCode
from dbg_wire.errors import PeerError, printable

if TYPE_CHECKING:
    from dbg_broker.hub.state import Hub
    from dbg_broker.ranks.rank_record import RankRecord

logger = logging.getLogger("dbg_broker")

ABSENCE_SECONDS = 3.0
"""Seconds between two sweeps that show that this broker, or its host, was suspended."""

Receive = Callable[[str, Any], None]
"""Takes the name of the broker that sent a message, and the message."""


class Cluster:
    """The cluster as one broker has it. All methods belong to the event loop's thread, and do not block."""

    def __init__(self, hub: Hub, bus: Bus, own: Presence) -> None:
        self._hub, self._bus = hub, bus
        self.members = Members(own, hub.timers, self._came, self._gone)
        self.owners = Owners(self, bus.buckets, hub.timers)
        self.addresses = Addresses(hub, self.members)
        self.tokens = SharedTokens(bus.buckets)
        self._methods: dict[type[ClusterMessage], Receive] = {}
        self._tasks = Tasks()
        self._swept = hub.timers.clock()
        self._is_there = True
        self.feed = ChangeFeed(hub, self)
        self.mirror = Mirror(hub, self)
        self.legs, self.hosted = Legs(hub, self), HostedLegs(hub, self)
        self.on(CloseLeg, self._close_leg)
        hub.terminals.listing.on_changed = self.feed.changed
        hub.journal.broker = own.name
        if hub.journal.occasions is not None:
            hub.journal.occasions.broker = own.name
            hub.journal.occasions.speaks_for = self.members.speaks_for
        bus.handlers = BusHandlers(received=self._received, lost=self._lost, up=self._up, down=self._down)
        self.on(Hello, self._hello)
        self.on(LogText, lambda _, message: notices.pass_log_on(hub, message.key, message.text, message.left_out))

    @property
    def name(self) -> str:
        """Return this broker's name in the cluster."""
        return self._bus.name

    def on(self, kind: type[ClusterMessage], receive: Receive) -> None:
        """Have messages of this kind taken by a function."""
        self._methods[kind] = receive

    def send(self, to: str, message: ClusterMessage) -> bool:
        """Send a broker a message; False if it was not taken, and never will be."""
        return self._bus.send(to, encode(message))

    def publish(self, message: ClusterMessage) -> bool:
        """Send all other brokers a message; False if one of them lacks it."""
        return self._bus.publish(encode(message))

    # --------------------------------------------------------------------------------------------------------- its life

    async def begin(self) -> None:
        """Join the others. Raise CantJoin if NATS takes nobody."""
        self._bus.buckets.watch(BucketName.BROKERS, "*", self._presence_changed)
        self.tokens.watch()
        await self._bus.open()
        self._hub.timers.schedule(HEARTBEAT_SECONDS, self._beat)

    def leave(self) -> None:
        """Tell the others that this broker ends: its ranks and terminals, which it closes next, dial one of them."""
        self._is_there = False
        self._bus.announce(BucketName.BROKERS, self.name, None)

    async def end(self) -> None:
        """Leave the others, and end what goes on at NATS."""
        if self._is_there:
            self.leave()
        self._tasks.cancel()
        self.tokens.close()
        await self._bus.close()

    # ----------------------------------------------------------------------------------------------- what the hub tells

    def registered(self, rank: RankRecord) -> None:
        """Take note that a rank, or its guard, has registered here: the others are told once the claim stands."""
        if rank.fence:
            self.moved(rank.key)
        self.owners.claim(rank.key, rank.registration.dial, rank.fence)

    def adopt(self, rank: RankRecord) -> None:
        """Have a rank whose broker has gone as one of this broker's, and tell the others of it."""
        self._hub.ranks.registry.adopt(rank)
        self.registered(rank)

    def withholds(self, key: str, number: int) -> bool:
        """Tell whether a terminal's keys can't be passed on to a rank, as this broker was away and it may have moved.

        The terminal keeps them; its seat is sent again once this is known, and it then sends them again.
        """
        self._note_absence(self._hub.timers.clock())
        return self.owners.withholds(key, number)

    @property
    def nats_silent(self) -> float | None:
        """Return for how many seconds NATS has not answered; None while it does, or for a moment in which it may."""
        lost_at = self._bus.lost_at
        return None if self._bus.is_up or lost_at is None else round(self._hub.timers.clock() - lost_at, 3)

    def figures(self) -> ClusterFigures:
        """Return what is counted."""
        meters = self._bus.meters
        return ClusterFigures(
            brokers=1 + len(self.members),
            nats_silent=self.nats_silent or 0.0,
            claims_waiting=self.owners.waiting,
            sent=meters.sent,
            received=meters.received,
            refused=meters.refused,
            gaps=meters.gaps,
        )

    def why_unreachable(self, broker: str) -> str:
        """Return in a sentence why a broker's ranks can't be reached."""
        if self._bus.lost_at is not None:
            seconds = self._hub.timers.clock() - self._bus.lost_at
            return f"its broker can't be reached: NATS has not answered for {seconds:.0f} s"
        return "its broker is gone" if self.members.find(broker) is None else "too much waits for its broker"

    def sweep(self, now: float) -> None:
        """Do what is due by the clock."""
        self._note_absence(now)
        self._swept = now
        self.tokens.sweep(now)
        if self._bus.lost_at is None:
            self.members.poll(now)
        else:
            # Nobody's heartbeat can come.
            self.members.excuse(now)
        self.hosted.heard(now)

    def _beat(self) -> None:
        """Tell the others that this broker is there, also before it serves: its start may take seconds."""
        if self._is_there:
            now = self._hub.timers.clock()
            self._announce()
            self._bus.beat()
            self.mirror.sweep(now)
            self.owners.sweep(now)
            self._hub.timers.schedule(HEARTBEAT_SECONDS, self._beat)

    def _note_absence(self, now: float) -> None:
        """Look after a long time without a sweep who has what by now: others have taken this broker for gone."""
        if now - self._swept >= ABSENCE_SECONDS:
            self._swept = now
            self.members.excuse(now)
            self.owners.came_back()

    # ----------------------------------------------------------------------------------------------- what the bus tells

    def _received(self, sender: str, payload: bytes) -> None:
        try:
            message = decode(payload)
        except PeerError as error:
            logger.warning("the broker %s is not understood: %s", printable(sender), printable(error.reason))
            return
        if not isinstance(message, Hello) and self.members.find(sender) is None:
            # It has not introduced itself since it was gone; when it does, both ask each other for everything.
            return
        receive = self._methods.get(type(message))
        if receive is not None:
            receive(sender, message)

    def _lost(self, sender: str) -> None:
        """Take note that messages of a broker have not come: what is known of it is asked anew."""
        if self.members.find(sender) is not None:
            logger.warning("messages of the broker %s are lost", printable(sender))
            self._begin_anew(sender)

    def _up(self) -> None:
        """NATS answers, at first or again."""
        self.members.excuse(self._hub.timers.clock())
        self._announce()
        self._tasks.begin(self.owners.up())
        for member in self.members.others():
            self._begin_anew(member.name)

    def _down(self, why: str) -> None:
        """NATS has gone."""
        logger.warning("NATS has gone: %s", printable(why))
        self.owners.down()
        self.mirror.unheard()

    def _begin_anew(self, broker: str) -> None:
        """Have all that is known of a broker, and all legs from and to it, made anew: messages are lost."""
        self.mirror.ask(broker)
        self._cut(broker)

    def _cut(self, broker: str) -> None:
        self.legs.cut(broker)
        self.hosted.cut(broker)

    def _close_leg(self, sender: str, message: CloseLeg) -> None:
        if message.by_terminal:
            self.hosted.ended(sender, message)
        else:
            self.legs.ended(sender, message)

    def moved(self, key: str) -> None:
        """Have the terminals come anew that sit at a rank which has another broker now."""
        hub = self._hub
        self.legs.moved(key)
        rank = hub.ranks.registry.find(key)
        if rank is not None and rank.owner:
            for number in hub.terminals.seats.viewers(key):
                link = hub.terminals.links[number]
                link.connection.close(CloseCode.SHUTDOWN, "its rank is at another broker now")

    # ---------------------------------------------------------------------------------------------------------- members

    def shows(self, fingerprints: tuple[str, ...]) -> None:
        """Take note that this broker shows another certificate."""
        self.members.own = self.members.own.replace(fingerprints=fingerprints)
        self._announce()
        self.addresses.changed()

    def listens(self, *, logs: bool) -> None:
        """Take note whether clients of this broker ask for the texts of log points."""
        if logs != self.members.own.logs:
            self.members.own = self.members.own.replace(logs=logs)
            self._announce()

    def logged(self, key: str, text: str, left_out: int) -> None:
        """Send the text of a log point to the brokers whose clients ask for such texts."""
        for name in self.members.listening():
            self.send(name, LogText(key=key, text=text, left_out=left_out))

    def _announce(self) -> None:
        if self._is_there:
            self._bus.announce(BucketName.BROKERS, self.name, self.members.value())

    def _presence_changed(self, name: str, value: bytes | None) -> None:
        if value is None:
            self.members.left(name)
            return
        try:
            self.members.saw(read_presence(value))
        except PeerError as error:
            logger.warning("the broker %s is not understood: %s", printable(name), printable(error.reason))

    def _hello(self, sender: str, message: Hello) -> None:
        if message.presence.name != sender:
            return
        if self.members.find(sender) is not None and not message.answers:
            # It had not known this broker, or had taken it for gone.
            self.send(sender, Hello(presence=self.members.own, answers=True))
            self._begin_anew(sender)
        self.members.saw(message.presence, greets=True)

    def _came(self, name: str, greets: bool) -> None:
        """Take note of a broker that has come; ``greets`` tells whether it has said so itself."""
        logger.info("the broker %s has come", printable(name))
        self._bus.peers[name] = None
        self.send(name, Hello(presence=self.members.own, answers=greets))
        self.mirror.ask(name)
        self.addresses.changed()

    def _gone(self, name: str) -> None:
        """Take note of a broker that has gone."""
        logger.info("the broker %s has gone", printable(name))
        self._bus.peers.pop(name, None)
        self.mirror.gone(name)
        self._cut(name)
        self.addresses.changed()

    # ----------------------------------------------------------------------------------------------------------- owners

    def claimed(self, key: str, fence: int) -> None:
        """Take note of a rank that this broker has: the others are told of it from now on."""
        rank = self._hub.ranks.registry.find(key)
        if rank is not None and not rank.owner:
            rank.fence = fence
            self.feed.changed(key)

    def lost_rank(self, key: str) -> None:
        """Close the link of a rank that has connected to another broker later, and that of its guard."""
        for links in (self._hub.ranks.links, self._hub.ranks.guards):
            if (link := links.get(key)) is not None:
                link.connection.close(CloseCode.REPLACED, "another broker has this rank")

    def resend(self, numbers: Collection[int]) -> None:
        """Send their seats to terminals whose keys were withheld, so that they send these again."""
        self._hub.terminals.send_seats([number for number in numbers if number in self._hub.terminals.links])
