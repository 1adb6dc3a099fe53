"""The entry of connections: which are admitted, in which role, and which module takes their messages."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial

from dbg_broker.home.bearer import Bearer, Role
from dbg_broker.home.tokens import Tokens
from dbg_broker.hub import close_codes, departures, from_ranks, from_terminals
from dbg_broker.hub.audited import Refusals
from dbg_broker.hub.links import RankLink, RankPeer, TerminalLink
from dbg_broker.hub.state import Hub
from dbg_broker.hub.sweeper import Sweeper
from dbg_broker.net import tcp
from dbg_broker.net.connection import PeerConnection
from dbg_broker.net.http import (
    BEARER,
    PAGES,
    RELOAD,
    Connected,
    HttpAnswer,
    Upgrade,
    admit,
    describe_bearer,
    may_reload,
    not_found,
    page,
    path_of,
    path_shown,
)
from dbg_broker.net.rate import RateLimit
from dbg_broker.net.unfinished import MESSAGE_SECONDS
from dbg_wire import limits
from dbg_wire.codec import UnknownType, decode
from dbg_wire.errors import DbgError, PeerError
from dbg_wire.log_form import LogForm
from dbg_wire.messages import RefusalCode, Sender

logger = logging.getLogger("dbg_broker")

KEYS_COST = 16
"""Bytes that a terminal's keys count beside their own: 7,000 keys a second pass, a flood of empty frames doesn't."""

MESSAGE_COST = 256
"""Bytes that a terminal's control message counts beside its own: a thousand a second, which cost 4 % of the broker."""

RANK_MESSAGE_COST = 2 * limits.KIB
"""Bytes that a rank's control message counts beside its own: 2,000 a second, far above what keys and steps lead to."""

RANK_OUTPUT_COST = 256
"""Bytes that a frame of output counts: its content is passed on unread, so that only the number of frames costs."""


MAX_TIMER_SECONDS = 24 * 3600.0
"""Seconds after which the end of a token is looked at again: the wall clock may have been set meanwhile."""

ReadTokens = Callable[[Callable[["Tokens | DbgError"], None]], None]
"""Read the tokens anew without blocking the loop, and call back with them or with the error, in the loop."""


class Reception:
    """Owner of all connections: it takes them, and what comes on them, for a hub."""

    def __init__(self, hub: Hub, tokens: Tokens, read_tokens: ReadTokens | None = None) -> None:
        self._hub = hub
        self._tokens = tokens
        self._read_tokens = read_tokens
        self._sweeper = Sweeper(hub)
        self._refusals = Refusals(hub)

    # ---------------------------------------------------------------------------------------------------- connections

    @property
    def can_accept(self) -> bool:
        """Tell whether one more connection may come now."""
        return self._hub.arrivals.has_room(self._hub.clock())

    def turned_away(self, peer: str) -> None:
        """Count a peer whose address is not allowed."""
        self._hub.meters.turned_away += 1
        logger.info("a connection from %s is closed: --allow does not name its address", peer)

    def accepted(self, connection: PeerConnection) -> None:
        """Count a connection until its first message; if too many wait, the oldest is closed."""
        logger.debug("connection %d comes from %s", connection.number, connection.peer)
        hub = self._hub
        oldest = hub.arrivals.come(connection.number, connection, tcp.host_of(connection.peer), hub.clock())
        if oldest is not None:
            self._give_up(oldest, "too many connections wait")

    def admit(self, connection: PeerConnection, upgrade: Upgrade) -> Bearer | HttpAnswer | None:
        """Return who may have a WebSocket for this request, or what to answer instead; None if that comes later."""
        hub = self._hub
        path = path_of(upgrade.path)
        if path == RELOAD:
            return self._reload(connection, upgrade)
        answer = page(upgrade.path, hub.meters, hub.gauges(), hub.times, self._tokens) if path in PAGES else None
        if answer is not None:
            return answer
        clients, watchers = len(hub.terminals), len(hub.watchers)
        connected = Connected(ranks=len(hub.links) - clients, drivers=clients - watchers, watchers=watchers)
        if path == BEARER:
            decided: Bearer | HttpAnswer = describe_bearer(upgrade, self._tokens, time.time())
        else:
            decided = admit(upgrade, self._tokens, connected, hub.capacity, time.time())
        if isinstance(decided, HttpAnswer) and decided.status != 200:
            hub.meters.refusals[decided.status] += 1
            if decided.status in (401, 403):
                self._refusals.note(connection.peer, decided.body)
                if hub.occasions is not None:
                    hub.occasions.refused(tcp.host_of(connection.peer), decided.body)
            shown = path_shown(upgrade.path)
            logger.info("a request of %s for %s is refused: %d", connection.peer, shown, decided.status)
        return decided

    def opened(self, connection: PeerConnection, bearer: Bearer) -> None:
        """Take a new WebSocket."""
        logger.debug("connection %d is open, for %s", connection.number, bearer.shown)
        hub = self._hub
        hub.meters.handshakes += 1
        if bearer.expires is not None:
            self._look_at_end(connection, bearer.expires)
        if bearer.role is Role.RANK:
            hub.link_rank(connection, bearer=bearer)
            return
        link = TerminalLink(connection, bearer, RateLimit(hub.clock(), limits.MAX_INPUT_PER_SECOND))
        link.told = None if bearer.job is None else set()
        hub.links[connection.number] = hub.terminals[connection.number] = link
        if bearer.role is Role.WATCHER:
            hub.watchers[connection.number] = None
        elif len(hub.terminals) > hub.capacity.clients and hub.watchers:
            why = "the broker is full, and a terminal that may type came"
            departures.give_way(hub, next(reversed(hub.watchers)), why)

    def failed(self, connection: PeerConnection, reason: str) -> None:
        """Count a stranger, once for each connection."""
        if connection.has_failed:
            # It was given up during its TLS handshake, and counted then.
            return
        connection.has_failed = True
        self._hub.meters.failures += 1
        logger.info("the connection from %s is closed: %s", connection.peer, reason)

    def lost(self, connection: PeerConnection) -> None:
        """Forget a connection."""
        departures.lost(self._hub, connection)

    def overflowed(self, connection: PeerConnection) -> None:
        """Note that a control message had no room."""
        if connection.number in self._hub.terminals:
            departures.close_slow(self._hub, connection)
        else:
            logger.info("the rank at %s does not read; a message to it is dropped", connection.peer)

    def unfinished(self, connection: PeerConnection, size: int, *, is_new: bool) -> None:
        """Count the bytes of a message that is not complete; if all are too many, close the connection with most."""
        hub = self._hub
        if connection.number not in hub.links:
            return
        hub.unfinished.note(connection.number, size, hub.clock(), is_new=is_new)
        while (number := hub.unfinished.heaviest()) is not None:
            self._end_unfinished(number, "messages that are not complete take too much memory, most of it here").abort()

    def drained(self, connection: PeerConnection) -> None:
        """Send what had no room."""
        hub = self._hub
        link = hub.terminals.get(connection.number)
        if link is None:
            return
        viewer = hub.seats.viewer(link.number)
        if connection.missed_output() and viewer is not None:
            if hub.has_log(viewer.key):
                # A terminal that is sent its seat asks for what it has missed; the rank may send nothing else for long.
                hub.send_seat(link.number)
            else:
                hub.want_repaint(viewer.key)
        hub.listing.supply(link)

    def sweep(self, late: float) -> None:
        """Do what is due by the clock, ``late`` seconds after its time."""
        self._hub.times.timer_ran(late)
        now = self._hub.clock()
        for connection in self._hub.arrivals.overdue(now, limits.HANDSHAKE_SECONDS):
            self._give_up(connection, f"no first message within {limits.HANDSHAKE_SECONDS:g} s")
        for number in self._hub.unfinished.overdue(now):
            self._end_unfinished(number, f"a message was not complete within {MESSAGE_SECONDS:g} s")
        self._sweeper.sweep(now)

    def close_all(self, then: Callable[[], None]) -> None:
        """Close all connections, and call ``then`` when none is left, at once if there is none."""
        hub = self._hub
        hub.on_empty = then
        for connection in hub.arrivals.connections():
            if not connection.is_open:
                connection.abort()
        for link in tuple(hub.links.values()):
            link.connection.close(close_codes.SHUTDOWN, "the broker shuts down")
        if not hub.connected:
            then()

    def abort_all(self) -> None:
        """End at once what :meth:`close_all` has not closed."""
        for link in tuple(self._hub.links.values()):
            link.connection.abort()

    # ------------------------------------------------------------------------------------------------- what they say

    def has_bytes(self, connection: PeerConnection) -> bool:
        """Have a connection read what came, now or when it is its turn; return whether it waits for its turn."""
        return self._hub.turns.take(connection, types=self._types(connection))

    def text_received(self, connection: PeerConnection, text: str) -> None:
        """Take a control message: refuse it, or hand it to its function."""
        hub = self._hub
        link = hub.links.get(connection.number)
        if link is None:
            return
        try:
            is_rank = isinstance(link, RankLink)
            self._charge(connection, link.rate, len(text) + (RANK_MESSAGE_COST if is_rank else MESSAGE_COST))
            message = decode(text, Sender.AGENT if is_rank else Sender.CLIENT)
            logger.debug("connection %d says %s", connection.number, LogForm(message))
            if isinstance(link, RankLink):
                from_ranks.take(hub, link, message)
            else:
                from_terminals.take(hub, link, message)
        except UnknownType as error:
            hub.refuse(connection, RefusalCode.UNKNOWN_TYPE, error.reason)
        except PeerError as error:
            self._close_bad(connection, error)

    def data_received(self, connection: PeerConnection, data: bytes) -> None:
        """Take terminal bytes."""
        hub = self._hub
        link = hub.links.get(connection.number)
        try:
            if isinstance(link, RankLink):
                self._charge(connection, link.rate, RANK_OUTPUT_COST)
                from_ranks.take_output(hub, link, data)
            elif link is not None:
                self._charge(connection, link.rate, len(data) + KEYS_COST)
                from_terminals.take_input(hub, link, data)
        except PeerError as error:
            self._close_bad(connection, error)

    def frame_received(self, connection: PeerConnection) -> None:
        """Note a frame that is no message, and costs as much as one."""
        link = self._hub.links.get(connection.number)
        if link is not None:
            self._charge(connection, link.rate, RANK_MESSAGE_COST if isinstance(link, RankLink) else MESSAGE_COST)

    # --------------------------------------------------------------------------------------------------------- tokens

    def _reload(self, connection: PeerConnection, upgrade: Upgrade) -> HttpAnswer | None:
        refusal = may_reload(upgrade, self._tokens, time.time())
        if refusal is not None or self._read_tokens is None:
            return refusal or not_found(RELOAD)
        self._read_tokens(partial(self._tokens_are_read, connection))
        return None

    def _tokens_are_read(self, connection: PeerConnection, found: Tokens | DbgError) -> None:
        if isinstance(found, DbgError):
            logger.error("the tokens can't be read anew: %s", found)
            connection.respond(HttpAnswer(500, f"{found}\n"))
            return
        self.use(found)
        connection.respond(HttpAnswer(200, "ok\n"))

    def use(self, found: Tokens) -> None:
        """Go on with these tokens, and close the connections that were opened with others."""
        self._tokens = found
        for link in tuple(self._hub.links.values()):
            # A rank that runs with the home's own token finds the new one when it dials again. It keeps its connection
            # until then, as its stop must not be lost.
            stays = isinstance(link, RankLink) and not link.bearer.name
            if not stays and not found.still_know(link.bearer):
                logger.info("the connection from %s is closed: its token is revoked", link.connection.peer)
                link.connection.close(close_codes.REVOKED, "its token was revoked, or replaced by another")

    def _look_at_end(self, connection: PeerConnection, expires: float) -> None:
        """Close a connection when its token expires; the wall clock decides, as it did when the token was made."""
        left = expires - time.time()
        if left > 0:
            look_again = partial(self._look_at_end, connection, expires)
            self._hub.schedule(min(left, MAX_TIMER_SECONDS), look_again)
        elif connection.number in self._hub.links:
            logger.info("the connection from %s is closed: its token has expired", connection.peer)
            connection.close(close_codes.REVOKED, "its token has expired")

    # ---------------------------------------------------------------------------------------------------------- inner

    def _types(self, connection: PeerConnection) -> bool:
        """Tell whether keys come on this connection, or their echo."""
        hub = self._hub
        link = hub.links.get(connection.number)
        if isinstance(link, RankLink):
            return link.rank is not None and hub.seats.driver(link.rank.key) is not None
        return link is not None and hub.seats.generation_of(link.number) is not None

    def _charge(self, connection: PeerConnection, rate: RateLimit, size: int) -> None:
        seconds = rate.spend(size, self._hub.clock())
        if seconds > 0:
            connection.rest(seconds)

    def _give_up(self, connection: PeerConnection, reason: str) -> None:
        self._hub.arrivals.leave(connection.number)
        self.failed(connection, reason)
        connection.abort()

    def _end_unfinished(self, number: int, reason: str) -> RankPeer:
        self._hub.unfinished.drop(number)
        connection = self._hub.links[number].connection
        logger.info("the connection from %s is closed: %s", connection.peer, reason)
        connection.close(close_codes.SLOW, reason, flush=False)
        return connection

    def _close_bad(self, connection: PeerConnection, error: PeerError) -> None:
        logger.info("the connection from %s is closed: %s", connection.peer, error)
        self._hub.refuse(connection, RefusalCode.BAD_MESSAGE, error.reason)
        connection.close(close_codes.BAD_MESSAGE, error.reason)
