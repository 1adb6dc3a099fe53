"""Texts of log points at ranks of other brokers, for the clients of this one that ask for the texts of all ranks."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dbg_broker.home.bearer import Role
from dbg_broker.hub import notices
from dbg_broker.hub.cluster.messages import CloseLeg, LegFrame, LegTaken, OpenLeg
from dbg_broker.net.websocket import CloseCode, payload_of
from dbg_wire.codec import decode
from dbg_wire.errors import PeerError, printable
from dbg_wire.messages import Logged, Sender

if TYPE_CHECKING:
    from dbg_broker.hub.cluster.cluster import Cluster
    from dbg_broker.hub.links import TerminalLink
    from dbg_broker.hub.state import Hub

logger = logging.getLogger("dbg_broker")


class LogTexts:
    """Subscription of this broker at each other one, as long as one of its own clients asks for texts."""

    def __init__(self, hub: Hub, cluster: Cluster, numbers: Iterator[int]) -> None:
        self._hub, self._cluster, self._numbers = hub, cluster, numbers
        self._legs: dict[str, int] = {}
        """The leg to each broker that is asked for texts."""

    def ask(self) -> None:
        """Ask all brokers for texts if somebody wants them, and none if nobody does any more."""
        if any(not link.broker for link in self._listeners()):
            for member in self._cluster.members.others():
                if member.name not in self._legs:
                    self._open(member.name)
            return
        for broker, leg in self._legs.items():
            self._cluster.send(broker, CloseLeg(leg=leg, by_terminal=True, code=CloseCode.DONE))
        self._legs.clear()

    def cut(self, broker: str | None = None) -> None:
        """Forget the leg to a broker, or all: messages are lost, and they are asked anew."""
        for one in [one for one in self._legs if broker in (None, one)]:
            leg = self._legs.pop(one)
            self._cluster.send(one, CloseLeg(leg=leg, by_terminal=True, code=CloseCode.DONE))

    def ended(self, sender: str, leg: int) -> None:
        """Forget a leg that its broker has ended."""
        if self._legs.get(sender) == leg:
            del self._legs[sender]

    def receive(self, sender: str, message: LegFrame) -> None:
        """Take a text, if it comes on such a leg."""
        if self._legs.get(sender) != message.leg:
            return
        self._cluster.send(sender, LegTaken(leg=message.leg, count=len(message.frame)))
        try:
            logged = decode(payload_of(message.frame), Sender.BROKER)
        except PeerError as error:
            logger.warning("the broker %s is not understood: %s", printable(sender), printable(error.reason))
            return
        if isinstance(logged, Logged):
            notices.pass_log_on(self._hub, logged)

    def _listeners(self) -> Iterator[TerminalLink]:
        terminals = self._hub.terminals
        return (terminals.links[number] for number in terminals.log_listeners.behind if number in terminals.links)

    def _open(self, broker: str) -> None:
        leg = next(self._numbers)
        opened = OpenLeg(leg=leg, role=Role.WATCHER, name="broker", token="", job=None, digest=b"", peer="", logs=True)
        if self._cluster.send(broker, opened):
            self._legs[broker] = leg
