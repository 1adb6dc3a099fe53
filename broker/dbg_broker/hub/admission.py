"""Who gets in: what is answered to each request, by its token and by what its address has done lately."""

from __future__ import annotations

import logging
import math
import time
from functools import partial

from dbg_broker.home.bearer import Bearer, Role
from dbg_broker.home.tokens import Tokens
from dbg_broker.hub import departures
from dbg_broker.hub.links import RankLink
from dbg_broker.hub.ranks import Ranks
from dbg_broker.hub.state import Hub, refuse
from dbg_broker.net.connection import PeerConnection
from dbg_broker.net.http import (
    METRICS,
    PAGES,
    Connected,
    HttpAnswer,
    Upgrade,
    admit,
    come_later,
    may_see_figures,
    method_not_allowed,
    not_found,
    page,
    path_of,
    path_shown,
    too_many,
)
from dbg_broker.net.metrics import Budget, Payer
from dbg_broker.net.websocket import CloseCode
from dbg_broker.ranks.rank_record import RankRecord
from dbg_wire import limits
from dbg_wire.errors import PeerError
from dbg_wire.messages import RefusalCode, Register

logger = logging.getLogger("dbg_broker")

MAX_TIMER_SECONDS = 600.0
"""Seconds after which the broker looks at the end of a token again: somebody may have set the wall clock, and the timer
of a connection that has ended goes then."""

PAGES_RETRY_SECONDS = 1.0
"""Seconds after which an address that asked for too many pages is to ask again."""

FIGURES_SECONDS = 15.0
"""Seconds for which strangers see the same figures: newer ones would tell when each key is typed."""

MAX_TERMINALS_OF_TOKEN = 64
"""Terminals with one token that was made for somebody: as many as a rank has seats, and a sixteenth of all places."""

METHODS = frozenset({"GET", "HEAD"})

FAILED = frozenset({401, 403, 404, 405})
"""Statuses of attempts that came to nothing; 426 is left out, as a job of an older release isn't to blame."""


class Admission:
    """The tokens of a broker, and the answers to requests."""

    def __init__(self, hub: Hub, tokens: Tokens) -> None:
        self._hub = hub
        self._tokens = tokens
        self._figures: tuple[float, HttpAnswer] | None = None
        """Until when strangers see which figures."""

    def admit(self, connection: PeerConnection, upgrade: Upgrade) -> Bearer | HttpAnswer | None:
        """Return who may have a WebSocket for this request, or what to answer instead; None if that comes later."""
        path = path_of(upgrade.path)
        if upgrade.method not in METHODS:
            return self._refused(connection, upgrade, method_not_allowed(upgrade.method))
        if path in PAGES:
            return self._page(connection, upgrade)
        hub = self._hub
        clients, watchers = len(hub.terminals.links), len(hub.terminals.watchers)
        connected = Connected(
            ranks=len(hub.links) - len(hub.terminals.links), drivers=clients - watchers, watchers=watchers
        )
        decided = admit(upgrade, self._tokens, connected, hub.connections.capacity, time.time())
        if isinstance(decided, Bearer) and (
            why := hub.connections.lacks or self._why_too_many(decided, connection.network)
        ):
            decided = HttpAnswer(503, f"{why}\n")
        if isinstance(decided, Bearer) and decided.role is Role.RANK and (later := self._told_later()) is not None:
            decided = later
        return self._refused(connection, upgrade, decided) if isinstance(decided, HttpAnswer) else decided

    def _told_later(self) -> HttpAnswer | None:
        """Return the answer that tells a rank when to come, if those that are admitted can't register at once."""
        arrivals = self._hub.connections.arrivals
        if arrivals.admitted < arrivals.pace.at_once:
            return None
        return come_later(arrivals.admitted, arrivals.pace.later(arrivals.admitted, self._hub.timers.clock()))

    def _why_too_many(self, bearer: Bearer, address: str) -> str:
        """Return why a token or an address may have no further connection, empty if it may."""
        if bearer.role is Role.RANK:
            return self._hub.connections.rank_places.refusal(bearer.shared_digest, address)
        if not bearer.name:
            return ""
        of_token = sum(link.bearer.digest == bearer.digest for link in self._hub.terminals.links.values())
        if of_token < MAX_TERMINALS_OF_TOKEN:
            return ""
        return f"{MAX_TERMINALS_OF_TOKEN} terminals use the token {bearer.name} already; close one of them"

    def close_at_expiry(self, number: int, expires: float) -> None:
        """Close a connection when its token expires; the wall clock decides, as it did when the token was made.

        The timer knows the connection by its ``number``, so that it doesn't keep one that has ended.
        """
        seconds = min(max(0.0, expires - time.time()), MAX_TIMER_SECONDS)
        self._hub.timers.schedule(seconds, partial(self._look_at_expiry, number, expires))

    def _look_at_expiry(self, number: int, expires: float) -> None:
        link = self._hub.links.get(number)
        if link is None:
            return
        if expires > time.time():
            self.close_at_expiry(number, expires)
        else:
            logger.info("the connection from %s is closed: its token has expired", link.connection.peer)
            link.connection.close(CloseCode.REVOKED, "its token has expired")

    # ------------------------------------------------------------------------------------------------------- refusals

    def _page(self, connection: PeerConnection, upgrade: Upgrade) -> HttpAnswer | None:
        hub, now = self._hub, self._hub.timers.clock()
        if not hub.connections.reputation.may_ask(connection.network, now):
            hub.connections.meters.budgets.hit(Payer.STRANGER, Budget.REQUESTS)
            hub.connections.meters.refusals[429] += 1
            hub.connections.reputation.failed(connection.network, now)
            return too_many("requests", PAGES_RETRY_SECONDS)
        has_figures = path_of(upgrade.path) == METRICS
        if has_figures and upgrade.authorization is not None:
            refusal = may_see_figures(upgrade, self._tokens, time.time())
            if refusal is not None:
                return self._refused(connection, upgrade, refusal)
        elif has_figures and self._figures is not None and now < self._figures[0]:
            return self._figures[1]
        answer = page(upgrade.path, hub.connections.meters, hub.gauges(), hub.connections.times) or not_found(
            upgrade.path
        )
        if has_figures and upgrade.authorization is None:
            self._figures = now + FIGURES_SECONDS, answer
        return answer

    def _refused(self, connection: PeerConnection, upgrade: Upgrade, answer: HttpAnswer) -> HttpAnswer | None:
        """Count a refusal; return it, or None if it waits, as too many attempts of this address came to nothing."""
        hub, now = self._hub, self._hub.timers.clock()
        if answer.status in (401, 403):
            hub.journal.note_refusal(connection.peer, answer.body)
        if answer.status == 503:
            hub.connections.meters.budgets.hit(Payer.STRANGER, Budget.PLACES)
        delay = 0.0
        if answer.status in FAILED:
            hub.connections.reputation.failed(connection.network, now)
            delay = hub.connections.reputation.delay(connection.network, now)
        waits = delay > 0 and hub.connections.reputation.may_hold(connection.network, now)
        if delay > 0:
            hub.connections.meters.budgets.hit(Payer.STRANGER, Budget.FAILURES)
            answer = answer if waits else too_many("failed attempts", math.ceil(delay))
        hub.connections.meters.refusals[answer.status] += 1
        shown = path_shown(upgrade.path)
        logger.info("a request of %s for %s is refused: %d", connection.peer, shown, answer.status)
        if waits:
            hub.timers.schedule(delay, partial(self._respond_late, connection, answer))
        return None if waits else answer

    def _respond_late(self, connection: PeerConnection, answer: HttpAnswer) -> None:
        self._hub.connections.reputation.let_go(connection.network)
        connection.respond(answer)

    # --------------------------------------------------------------------------------------------------------- tokens

    def use(self, tokens: Tokens) -> None:
        """Go on with these tokens, and close the connections that were opened with others."""
        self._tokens = tokens
        for link in tuple(self._hub.links.values()):
            # A rank that runs with the home's own token finds the new one when it dials again. It keeps its connection
            # until then, as its stop must not be lost.
            stays = isinstance(link, RankLink) and not link.bearer.name
            if not stays and not self._tokens.still_know(link.bearer):
                logger.info("the connection from %s is closed: its token is revoked", link.connection.peer)
                link.connection.close(CloseCode.REVOKED, "its token was revoked, or replaced by another")


def is_impostor(hub: Hub, link: RankLink, message: Register) -> bool:
    """Turn away another process than the one that has this rank's key, if that one is there; tell whether it was.

    If that one is gone, the key changes hands: terminals that sat there are told, and may attach again.
    """
    known = hub.ranks.registry.find(message.identity.key)
    if known is None or known.is_same_process(message.secret):
        return False
    if _is_connected(hub.ranks, known):
        text = f"another process is {known.address} already, and it is connected"
        refuse(link.connection, RefusalCode.TAKEN, text)
        link.connection.close(CloseCode.DONE, "another process is this rank")
        return True
    former = hub.ranks.links.get(known.key)
    if former is not None:
        former.connection.abort()
        departures.connection_closed(hub, former.connection)
    hub.ranks.registry.forget(known)
    departures.forget(hub, known.key, f"another process is {known.address} by now; attach again to reach that one")
    return False


def _is_connected(ranks: Ranks, known: RankRecord) -> bool:
    former = ranks.links.get(known.key)
    return former is not None and former.connection.seconds_since_ack() < limits.SILENT_SECONDS


def is_of_other_job(link: RankLink, key: str, said: Register | None) -> bool:
    """Turn away a rank or guard that its token does not admit to a job; tell whether it was turned away.

    ``key`` is that of the rank of which it speaks, and ``said`` the rank's registration, if it brings one. Raise
    PeerError if the key does not name the job: nobody takes a key that the true rank of another job would come with.
    """
    jobs = [key.partition("/")[0], *([] if said is None else [said.identity.job])]
    other = next((job for job in jobs if not link.bearer.may_see(job)), None)
    if other is not None:
        text = f"the token is for ranks of job {link.bearer.job}, and this one is of job {other}"
        refuse(link.connection, RefusalCode.ROLE, text)
        link.connection.close(CloseCode.DONE, "its token is for another job")
        return True
    if len(set(jobs)) > 1:
        raise PeerError("register.identity.key does not begin with the rank's job and a slash")
    return False
