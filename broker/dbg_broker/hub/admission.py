"""Who gets in: what is answered to each request, by its token."""

from __future__ import annotations

import logging
import time
from functools import partial

from dbg_broker.home.bearer import Bearer
from dbg_broker.home.tokens import Tokens
from dbg_broker.hub import departures
from dbg_broker.hub.links import RankLink
from dbg_broker.hub.ranks import Ranks
from dbg_broker.hub.state import Hub, refuse
from dbg_broker.net.http import (
    METRICS,
    PAGES,
    Connected,
    HttpAnswer,
    Upgrade,
    admit,
    may_see_figures,
    method_not_allowed,
    not_found,
    page,
    path_of,
    path_shown,
)
from dbg_broker.net.peer import Peer
from dbg_broker.net.websocket import CloseCode
from dbg_broker.ranks.rank_record import RankRecord
from dbg_wire import limits
from dbg_wire.errors import PeerError
from dbg_wire.messages import RefusalCode, Register

logger = logging.getLogger("dbg_broker")

MAX_TIMER_SECONDS = 600.0
"""Seconds after which the broker looks at the end of a token again: somebody may have set the wall clock, and the timer
of a connection that has ended goes then."""

FIGURES_SECONDS = 15.0
"""Seconds for which strangers see the same figures: newer ones would tell when each key is typed."""

METHODS = frozenset({"GET", "HEAD"})


class Admission:
    """The tokens of a broker, and the answers to requests."""

    def __init__(self, hub: Hub, tokens: Tokens) -> None:
        self._hub = hub
        self._tokens = tokens
        self._figures: tuple[float, HttpAnswer] | None = None
        """Until when strangers see which figures."""

    def admit(self, peer: Peer, upgrade: Upgrade) -> Bearer | HttpAnswer:
        """Return who may have a WebSocket for this request, or the answer to it."""
        path = path_of(upgrade.path)
        if upgrade.method not in METHODS:
            return self._refused(peer, upgrade, method_not_allowed(upgrade.method))
        if path in PAGES:
            return self._page(peer, upgrade)
        hub = self._hub
        clients, watchers = len(hub.terminals.links), len(hub.terminals.watchers)
        connected = Connected(
            ranks=len(hub.links) - len(hub.terminals.links), drivers=clients - watchers, watchers=watchers
        )
        decided = admit(upgrade, self._tokens, connected, hub.capacity, time.time())
        return self._refused(peer, upgrade, decided) if isinstance(decided, HttpAnswer) else decided

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

    def _page(self, peer: Peer, upgrade: Upgrade) -> HttpAnswer:
        hub, now = self._hub, self._hub.timers.clock()
        has_figures = path_of(upgrade.path) == METRICS
        if has_figures and upgrade.authorization is not None:
            refusal = may_see_figures(upgrade, self._tokens, time.time())
            if refusal is not None:
                return self._refused(peer, upgrade, refusal)
        elif has_figures and self._figures is not None and now < self._figures[0]:
            return self._figures[1]
        answer = page(upgrade.path, hub.meters, hub.gauges()) or not_found(upgrade.path)
        if has_figures and upgrade.authorization is None:
            self._figures = now + FIGURES_SECONDS, answer
        return answer

    def _refused(self, peer: Peer, upgrade: Upgrade, answer: HttpAnswer) -> HttpAnswer:
        """Count a refusal, and return it."""
        if answer.status in (401, 403):
            self._hub.journal.note_refusal(peer.peer, answer.body)
        self._hub.meters.refusals[answer.status] += 1
        shown = path_shown(upgrade.path)
        logger.info("a request of %s for %s is refused: %d", peer.peer, shown, answer.status)
        return answer

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
