"""One broker's part in a cluster: it joins members, owners, mirror and legs to the hub."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dbg_broker.hub.cluster.members import Members, Presence
from dbg_broker.hub.cluster.messages import ClusterMessage, decode, encode
from dbg_broker.net.bus import Bus, BusHandlers
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

    def rank_changed(self, rank: RankRecord) -> None:
        """Take note that what is listed of a rank has changed, its seats included."""

    def forgotten(self, key: str) -> None:
        """Take note that a rank is no longer listed."""

    def sweep(self, now: float) -> None:
        """Do what is due by the clock."""
        self.members.poll(now)

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

    def _up(self) -> None:
        """NATS answers, at first or again."""

    def _down(self, why: str) -> None:
        """NATS has gone."""
        logger.warning("NATS has gone: %s", printable(why))

    def _came(self, name: str) -> None:
        """Take note of a broker that has come."""
        self._bus.peers[name] = None

    def _gone(self, name: str) -> None:
        """Take note of a broker that has gone."""
        self._bus.peers.pop(name, None)
