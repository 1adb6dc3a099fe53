"""Connections that end, of ranks, of their guards and of terminals, and those that the broker ends itself."""

from __future__ import annotations

import logging

from dbg_broker.hub.links import RankLink, RankPeer, TerminalLink
from dbg_broker.hub.state import Hub, refuse
from dbg_broker.net.metrics import Meters
from dbg_broker.net.peer import Peer
from dbg_broker.net.websocket import CloseCode
from dbg_broker.ranks.liveness import is_dead
from dbg_broker.ranks.questions import broker_says
from dbg_broker.ranks.rank_record import RankRecord
from dbg_wire.messages import GUARD_ACTIONS, Ask, Kind, Probe, RefusalCode
from dbg_wire.records.audit import What
from dbg_wire.records.ranks import RankState

logger = logging.getLogger("dbg_broker")


def fell_silent(hub: Hub, rank: RankRecord) -> None:
    """Note that a rank, if it is connected, does not answer."""
    if rank.is_live and rank.state is not RankState.UNRESPONSIVE:
        hub.ranks.registry.fell_silent(rank)
        hub.rank_changed(rank)


def look_for_process(hub: Hub, rank: RankRecord) -> None:
    """Look whether the process of a rank that lost its connection is gone as well, now and again later."""
    if hub.ranks.liveness.kernel is not None and rank.registration.kernel == hub.ranks.liveness.kernel:
        _check_death(hub, rank.key, 0, hub.timers.clock())


def check_deaths(hub: Hub, now: float) -> None:
    """Look again for the processes that are due."""
    for key, attempt in hub.ranks.liveness.deaths.due(now):
        _check_death(hub, key, attempt, now)


def forget(hub: Hub, key: str, why: str = "the rank ended long ago and is forgotten") -> None:
    """Forget a rank that the registry has removed, and tell its terminals."""
    hub.terminals.listing.changed(key)
    hub.journal.forget(key)
    hub.ranks.forget(key)
    for number in hub.terminals.seats.rank_gone(key):
        refuse(hub.terminals.links[number].connection, RefusalCode.GONE, why)


def note_failure(hub: Hub, rank: RankRecord) -> None:
    """Note how a rank has ended, and tell of the ranks that were ended since another one of their run had failed."""
    for other in hub.ranks.failures.note(rank, hub.ranks.registry.ranks):
        hub.ranks.registry.killed(other)
        hub.terminals.listing.changed(other.key)


def _check_death(hub: Hub, key: str, attempt: int, now: float) -> None:
    rank = hub.ranks.registry.find(key)
    if rank is None or rank.state is not RankState.LOST:
        return
    if is_dead(rank.process.pid):
        hub.ranks.registry.found_dead(rank, now)
        hub.rank_changed(rank)
        note_failure(hub, rank)
    else:
        hub.ranks.liveness.deaths.put(key, attempt, now)


def connection_closed(hub: Hub, connection: RankPeer) -> None:
    """Forget a connection; an unknown one is no error."""
    logger.debug("connection %d has ended", connection.number)
    link = hub.links.pop(connection.number, None)
    if isinstance(link, RankLink):
        _guard_left(hub, link)
        _rank_left(hub, link)
    elif isinstance(link, TerminalLink):
        _terminal_left(hub, link)
    if hub.on_unused is not None and link is not None and not hub.links:
        hub.on_unused()


def mark_disconnected(hub: Hub, rank: RankRecord) -> None:
    """Note that neither a rank nor its guard is connected any more."""
    hub.ranks.registry.disconnected(rank, hub.timers.clock())
    if rank.state is RankState.LOST:
        look_for_process(hub, rank)
    hub.rank_changed(rank)


def give_way(hub: Hub, number: int, why: str) -> None:
    """Close a terminal that only looks, since its place is needed."""
    connection = hub.terminals.links[number].connection
    logger.info("the terminal at %s gives way: %s", connection.peer, why)
    refuse(connection, RefusalCode.FULL, why)
    connection.close(CloseCode.GIVES_WAY, why)
    # Its place is free at once, even if the terminal takes note of the close later.
    connection_closed(hub, connection)


def close_slow(meters: Meters, connection: Peer) -> None:
    """Close a terminal that doesn't read; what waits for it is dropped."""
    meters.disconnected += 1
    logger.info("the terminal at %s does not keep up and is disconnected", connection.peer)
    connection.close(CloseCode.SLOW, "the terminal did not keep up", flush=False)


def drop_silent(meters: Meters, connection: Peer) -> None:
    """End the connection of a terminal of which nothing is heard; its seat is free."""
    meters.disconnected += 1
    logger.info("the terminal at %s is silent and is disconnected", connection.peer)
    connection.abort()


def _rank_left(hub: Hub, link: RankLink) -> None:
    rank = link.rank
    if rank is None:
        return
    hub.ranks.left(rank.key)
    mark_disconnected(hub, rank)
    ended = "the process has ended" if rank.state is RankState.EXITED else "its connection ended"
    hub.rank_ended(rank.key, ended, hub.ranks.given_to_guard(rank.key))
    logger.info("%s (%s) is %s", rank.address, rank.key, rank.state.value)


def _guard_left(hub: Hub, link: RankLink) -> None:
    """Note that a guard's connection ended: its rank may go on, and answers for itself then."""
    key = link.guard_of
    if key is None or hub.ranks.guards.get(key) is not link:
        return
    del hub.ranks.guards[key]
    rank = hub.ranks.registry.find(key)
    if rank is not None and rank.is_live and key not in hub.ranks.links:
        # The rank itself has never connected, and its guard is gone now.
        mark_disconnected(hub, rank)
    elif rank is not None and rank.state is RankState.UNRESPONSIVE:
        hub.ranks.send(key, Probe(), "probe")
    for unanswered in settle_orphaned_asks(hub, link):
        hub.ranks.send(key, unanswered)


def settle_orphaned_asks(hub: Hub, guard: RankLink) -> list[Ask]:
    """Settle what a guard whose connection has ended was asked; return what its rank can be asked instead."""
    left, guard.asks = list(guard.asks.values()), {}
    for ask in left:
        if ask.action in GUARD_ACTIONS and guard.guard_of is not None:
            text = "its guard has gone, and has ended what it had begun"
            hub.answer(guard.guard_of, ask.request, broker_says(Kind.ERROR, text))
    return [ask for ask in left if ask.action not in GUARD_ACTIONS]


def _terminal_left(hub: Hub, link: TerminalLink) -> None:
    del hub.terminals.links[link.number]
    viewer = hub.terminals.seats.viewer(link.number)
    if link.name is not None:
        hub.journal.note(link, What.LEAVE, [viewer.key] if viewer is not None else [])
    hub.terminals.watchers.pop(link.number, None)
    hub.set_listener(link.number, wants=False)
    for number in hub.ranks.questions.of(link.number):
        hub.end_question(number)
    hub.carry_out(hub.terminals.seats.leave(link.number))
