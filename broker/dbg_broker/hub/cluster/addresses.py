"""Addresses of all brokers of a cluster, as the home, ranks and terminals are told them whenever they change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from dbg_broker.hub.links import NOBODY, RankLink
from dbg_wire import limits
from dbg_wire.finding.endpoint import Endpoint
from dbg_wire.finding.rendezvous import known_endpoints
from dbg_wire.messages import BrokerAddress

if TYPE_CHECKING:
    from dbg_broker.hub.cluster.members import Members, Presence
    from dbg_broker.hub.links import TerminalLink
    from dbg_broker.hub.state import Hub

TOLD_SECONDS = 1.0
"""Seconds for which changes are gathered (debounce): the brokers of a site start and end together."""


class Addresses:
    """The addresses that this broker tells; ``write`` is called with those of the others, for the files of the home."""

    def __init__(self, hub: Hub, members: Members) -> None:
        self._hub, self._members = hub, members
        self._is_due = False
        self.write: Callable[[tuple[Endpoint, ...]], None] | None = None

    def all(self) -> tuple[BrokerAddress, ...]:
        """Return the addresses of all brokers, this one's first, as many as a peer takes."""
        brokers = (self._members.own, *self._members.others())[: limits.MAX_BROKERS]
        return tuple(_address(one) for one in brokers)

    def changed(self) -> None:
        """Take note that a broker has come or gone, or shows another certificate."""
        if not self._is_due:
            self._is_due = True
            self._hub.timers.schedule(TOLD_SECONDS, self._tell)

    def _tell(self) -> None:
        self._is_due = False
        if self.write is not None:
            others = self._members.others()[: limits.MAX_BROKERS]
            self.write(known_endpoints((one.url, one.fingerprints) for one in others))
        self._hub.connections.turns.begin(self._welcoming(tuple(self._hub.links.values())), NOBODY)

    def _welcoming(self, links: tuple[RankLink | TerminalLink, ...]) -> Iterator[None]:
        """Welcome those again who have been welcomed: a welcome names all brokers."""
        for link in links:
            if link.connection.number not in self._hub.links:
                continue
            if not isinstance(link, RankLink):
                if link.name is not None:
                    self._hub.welcome(link.connection, role=link.role.value)
            elif link.rank is not None:
                self._hub.welcome(link.connection, link.rank.address, link.rank.child)
            yield


def _address(presence: Presence) -> BrokerAddress:
    return BrokerAddress(url=presence.url, fingerprints=presence.fingerprints[: limits.MAX_PINS])
