"""Admission: admits or refuses requests by their tokens, and assigns a receiver to an admitted peer's messages."""

from __future__ import annotations

import logging
import time
from functools import partial

from dbg_broker.home.tokens import Bearer, Role, Tokens
from dbg_broker.journal.journal import Journal
from dbg_broker.net.handshake_slots import Capacity
from dbg_broker.net.http import (
    METRICS,
    PAGES,
    PROMETHEUS,
    Connected,
    HttpAnswer,
    Upgrade,
    admit,
    may_see_figures,
    method_not_allowed,
    path_of,
    path_shown,
)
from dbg_broker.net.metrics import ClusterFigures, Gauges, Meters, metrics
from dbg_broker.net.peer import Owner, Peer
from dbg_broker.net.websocket import CloseCode
from dbg_broker.ranks.from_ranks import FromRanks
from dbg_broker.ranks.rank_record import RankLink
from dbg_broker.ranks.table import RankTable
from dbg_broker.relay import weights
from dbg_broker.relay.receiver import Receiver
from dbg_broker.relay.relay import Relay
from dbg_broker.terminals.link import TerminalLink
from dbg_broker.terminals.terminals import Terminals
from dbg_broker.timers import Timers, TokenBucket
from dbg_broker.welcome import Welcomes
from dbg_wire.messages import Sender

logger = logging.getLogger("dbg_broker")

MAX_TIMER_SECONDS = 600.0
"""Maximum time between two checks whether a connection's token has expired, in seconds: the wall clock may be set in
between. The timer of a closed connection remains for this time at most.
"""

FIGURES_SECONDS = 15.0
"""How long peers without a token get the same metrics, in seconds: current ones would reveal when each key is typed."""

METHODS = frozenset({"GET", "HEAD"})


class Admission:
    """Admission of peers: the broker's tokens, the answers to requests, and the receivers of messages."""

    def __init__(
        self,
        tokens: Tokens,
        timers: Timers,
        welcomes: Welcomes,
        relay: Relay,
        journal: Journal,
        *,
        capacity: Capacity,
        meters: Meters,
        table: RankTable,
        ranks: FromRanks,
        terminals: Terminals,
    ) -> None:
        self._tokens, self._timers, self._welcomes, self._relay = tokens, timers, welcomes, relay
        self._journal, self._capacity, self._meters = journal, capacity, meters
        self._table, self._ranks, self._terminals = table, ranks, terminals
        self._figures: tuple[float, HttpAnswer] | None = None
        """Time until which peers without a token get the same metrics, and these metrics."""

    @property
    def is_used(self) -> bool:
        """Whether any rank or terminal is connected."""
        return bool(self._ranks.links or self._terminals.links)

    def gauges(self) -> Gauges:
        """Return the current numbers, for the metrics and the status line."""
        others, (sessions, drivers, watchers) = self._welcomes.others, self._relay.seats.counts()
        return Gauges(
            ranks=self._table.registry.counts,
            terminals=len(self._terminals.links),
            sessions=sessions,
            drivers=drivers,
            watchers=watchers,
            uptime=self._welcomes.uptime,
            cluster=None
            if others is None
            else ClusterFigures(brokers=len(others.addresses()), nats_silent=others.nats_silent or 0.0),
        )

    def admit(self, peer: Peer, upgrade: Upgrade) -> Bearer | HttpAnswer:
        """Return the bearer if the request may become a WebSocket; otherwise return the HTTP answer."""
        path = path_of(upgrade.path)
        if upgrade.method not in METHODS:
            return self._refused(peer, upgrade, method_not_allowed(upgrade.method))
        if path in PAGES:
            return self._page(peer, upgrade)
        watchers = len(self._terminals.watchers)
        connected = Connected(
            ranks=len(self._ranks.links), drivers=len(self._terminals.links) - watchers, watchers=watchers
        )
        decided = admit(upgrade, self._tokens, connected, self._capacity, time.time())
        return self._refused(peer, upgrade, decided) if isinstance(decided, HttpAnswer) else decided

    def opened(self, peer: Peer, bearer: Bearer) -> Owner:
        """Accept a new WebSocket, and return the receiver of its messages."""
        if bearer.expires is not None:
            self._close_at_expiry(peer.number, bearer.expires)
        sender = Sender.AGENT if bearer.role is Role.RANK else Sender.CLIENT
        peer.limit(TokenBucket(self._timers.clock(), weights.RATES[sender]))
        if bearer.role is Role.RANK:
            return Receiver(peer, self._ranks.link(peer, bearer), self._ranks)
        return Receiver(peer, self._terminals.link(peer, bearer), self._terminals)

    def use(self, tokens: Tokens) -> None:
        """Use these tokens from now on, and close connections whose tokens are no longer valid."""
        self._tokens = tokens
        # Only ranks with a named token are disconnected. A rank with the home's own token keeps its connection, because
        # its stop must not be lost; it finds the new token in the home when it reconnects.
        links: list[RankLink | TerminalLink] = [link for link in self._ranks.links.values() if link.bearer.name]
        for link in [*links, *self._terminals.links.values()]:
            if not self._tokens.still_know(link.bearer):
                logger.info("connection from %s closed: its token is revoked", link.connection.peer)
                link.connection.close(CloseCode.REVOKED, "its token was revoked, or replaced by another")

    def _close_at_expiry(self, number: int, expires: float) -> None:
        """Close a connection when its token expires. ``expires`` is a time of the wall clock, so that clock decides.

        The timer stores only the connection's ``number``, so that no closed connection remains in memory.
        """
        seconds = min(max(0.0, expires - time.time()), MAX_TIMER_SECONDS)
        self._timers.schedule(seconds, partial(self._check_expiry, number, expires))

    def _check_expiry(self, number: int, expires: float) -> None:
        link: RankLink | TerminalLink | None = self._ranks.links.get(number) or self._terminals.links.get(number)
        if link is None:
            return
        if expires > time.time():
            self._close_at_expiry(number, expires)
        else:
            logger.info("connection from %s closed: its token has expired", link.connection.peer)
            link.connection.close(CloseCode.REVOKED, "its token has expired")

    # ------------------------------------------------------------------------------------------------------- refusals

    def _page(self, peer: Peer, upgrade: Upgrade) -> HttpAnswer:
        if path_of(upgrade.path) != METRICS:
            return HttpAnswer(200, "ok\n")
        now = self._timers.clock()
        if upgrade.authorization is not None:
            refusal = may_see_figures(upgrade, self._tokens, time.time())
            return self._figures_now() if refusal is None else self._refused(peer, upgrade, refusal)
        if self._figures is None or now >= self._figures[0]:
            self._figures = now + FIGURES_SECONDS, self._figures_now()
        return self._figures[1]

    def _figures_now(self) -> HttpAnswer:
        return HttpAnswer(200, metrics(self._meters, self.gauges()), content_type=PROMETHEUS)

    def _refused(self, peer: Peer, upgrade: Upgrade, answer: HttpAnswer) -> HttpAnswer:
        """Count a refusal, and return it."""
        if answer.status in (401, 403):
            self._journal.note_refusal(peer.peer, answer.body)
        self._meters.refusals[answer.status] += 1
        shown = path_shown(upgrade.path)
        logger.info("request from %s for %s refused: %d", peer.peer, shown, answer.status)
        return answer
