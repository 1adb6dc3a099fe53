"""One broker's part in a cluster: it joins members, owners, mirror and legs to the hub."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dbg_broker.hub.cluster.feed import ChangeFeed
from dbg_broker.hub.cluster.legs import Legs
from dbg_broker.hub.cluster.members import Members, Presence
from dbg_broker.hub.cluster.messages import CloseLeg, ClusterMessage, decode, encode
from dbg_broker.hub.cluster.mirror import Mirror
from dbg_broker.hub.cluster.remote_terminal import HostedLegs
from dbg_broker.net.bus import Bus, BusHandlers
from dbg_broker.net.websocket import CloseCode
from dbg_wire.errors import PeerError, printable

if TYPE_CHECKING:
    from dbg_broker.hub.links import RankLink
    from dbg_broker.hub.state import Hub
    from dbg_broker.ranks.rank_record import RankRecord

logger = logging.getLogger("dbg_broker")

Receive = Callable[[str, Any], None]
"""Takes the name of the broker that sent a message, and the message."""


class Cluster:
    """The cluster as one broker has it. All methods belong to the event loop's thread, and do not block."""

    def __init__(self, hub: Hub, bus: Bus, own: Presence) -> None:
        self._hub, self._bus = hub, bus
        self.members = Members(own, hub.timers, self._came, self._gone)
        self._methods: dict[type[ClusterMessage], Receive] = {}
        self.feed = ChangeFeed(hub, self)
        self.mirror = Mirror(hub, self, self._moved)
        self.legs, self.hosted = Legs(hub, self), HostedLegs(hub, self)
        self.on(CloseLeg, self._close_leg)
        hub.terminals.listing.on_changed = self.feed.changed
        hub.journal.broker = own.name
        if hub.journal.occasions is not None:
            hub.journal.occasions.broker = own.name
            hub.journal.occasions.speaks_for = self.members.speaks_for
        self._down_since: float | None = None
        bus.handlers = BusHandlers(received=self._received, lost=self._lost, up=self._up, down=self._down)

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

    # ----------------------------------------------------------------------------------------------- what the hub tells

    def registered(self, link: RankLink, rank: RankRecord) -> None:
        """Take note that a rank has registered here: it is claimed, and the others are told once that is done."""
        if rank.fence:
            self._moved(rank.key)

    def rank_changed(self, key: str) -> None:
        """Take note of a change of a rank that the list does not show: other brokers' ranks may be held for it."""
        self.feed.changed(key)

    def forgotten(self, key: str) -> None:
        """Take note that a rank is no longer listed."""

    def why_unreachable(self, broker: str) -> str:
        """Return in a sentence why a broker's ranks can't be reached."""
        if self._down_since is not None:
            seconds = self._hub.timers.clock() - self._down_since
            return f"its broker can't be reached: NATS has not answered for {seconds:.0f} s"
        return "its broker is gone" if self.members.find(broker) is None else "too much waits for its broker"

    def sweep(self, now: float) -> None:
        """Do what is due by the clock."""
        self.members.poll(now)
        self.hosted.heard(now)

    # ----------------------------------------------------------------------------------------------- what the bus tells

    def _received(self, sender: str, payload: bytes) -> None:
        try:
            message = decode(payload)
        except PeerError as error:
            logger.warning("the broker %s is not understood: %s", printable(sender), printable(error.reason))
            return
        receive = self._methods.get(type(message))
        if receive is not None:
            receive(sender, message)

    def _lost(self, sender: str) -> None:
        """Take note that messages of a broker have not come: what is known of it is asked anew."""
        logger.warning("messages of the broker %s are lost", printable(sender))
        self._begin_anew(sender)

    def _up(self) -> None:
        """NATS answers, at first or again."""
        self._down_since = None
        for member in self.members.others():
            self._begin_anew(member.name)

    def _down(self, why: str) -> None:
        """NATS has gone."""
        logger.warning("NATS has gone: %s", printable(why))
        self._down_since = self._hub.timers.clock()
        self.mirror.unheard()

    def _begin_anew(self, broker: str) -> None:
        """Have all that is known of a broker, and all legs from and to it, made anew: messages are lost."""
        self.mirror.ask(broker)
        self._cut(broker)
        self.legs.log_texts.ask()

    def _cut(self, broker: str) -> None:
        self.legs.cut(broker)
        self.legs.log_texts.cut(broker)
        self.hosted.cut(broker)

    def _close_leg(self, sender: str, message: CloseLeg) -> None:
        if message.by_terminal:
            self.hosted.ended(sender, message)
        else:
            self.legs.ended(sender, message)

    def _moved(self, key: str) -> None:
        """Have the terminals come anew that sit at a rank which has another broker now."""
        hub = self._hub
        self.legs.moved(key)
        rank = hub.ranks.registry.find(key)
        if rank is not None and rank.owner:
            for number in hub.terminals.seats.viewers(key):
                link = hub.terminals.links[number]
                link.connection.close(CloseCode.SHUTDOWN, "its rank is at another broker now")

    def _came(self, name: str) -> None:
        """Take note of a broker that has come."""
        self._bus.peers[name] = None
        self.mirror.ask(name)
        self.legs.log_texts.ask()

    def _gone(self, name: str) -> None:
        """Take note of a broker that has gone."""
        self._bus.peers.pop(name, None)
        self.mirror.gone(name)
        self._cut(name)
