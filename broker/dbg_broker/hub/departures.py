"""Connections that end, of ranks, of their guards and of terminals, and those that the broker ends itself."""

from __future__ import annotations

import logging

from dbg_broker.audit.entries import What
from dbg_broker.hub import audited, close_codes, lost_ranks, to_guards
from dbg_broker.hub.links import RankLink, RankPeer, TerminalLink
from dbg_broker.hub.state import Hub
from dbg_broker.net.budgets import Budget, Payer
from dbg_broker.net.connection import PeerConnection
from dbg_broker.ranks.questions import passed_on
from dbg_broker.ranks.rank_record import RankRecord
from dbg_wire.messages import Answer, Probe, RefusalCode
from dbg_wire.records.ranks import RankState

logger = logging.getLogger("dbg_broker")


def lost(hub: Hub, connection: RankPeer) -> None:
    """Forget a connection; an unknown one is no error."""
    logger.debug("connection %d has ended", connection.number)
    hub.arrivals.leave(connection.number)
    hub.unfinished.drop(connection.number)
    hub.rank_places.leave(connection.number)
    link = hub.links.pop(connection.number, None)
    if link is not None:
        hub.turns.forget(link.share)
    if isinstance(link, RankLink):
        _guard_left(hub, link)
        _rank_left(hub, link)
    elif isinstance(link, TerminalLink):
        _terminal_left(hub, link)
    if hub.on_unused is not None and link is not None and not hub.links:
        hub.on_unused()
    if hub.on_empty is not None and not hub.links and not hub.arrivals:
        hub.on_empty()


def lose(hub: Hub, rank: RankRecord) -> None:
    """Note that neither a rank nor its guard is connected any more."""
    hub.registry.disconnected(rank, hub.clock())
    if rank.state is RankState.LOST:
        lost_ranks.look_for_process(hub, rank)
    hub.rank_changed(rank)
    hub.listing.changed(rank.key)


def give_way(hub: Hub, number: int, why: str) -> None:
    """Close a terminal that only looks, since its place is needed."""
    connection = hub.terminals[number].connection
    logger.info("the terminal at %s gives way: %s", connection.peer, why)
    hub.refuse(connection, RefusalCode.FULL, why)
    connection.close(close_codes.GIVES_WAY, why)
    # Its place is free at once, even if the terminal takes note of the close later.
    lost(hub, connection)


def close_slow(hub: Hub, connection: PeerConnection) -> None:
    """Close a terminal that doesn't read; what waits for it is dropped."""
    hub.meters.disconnected += 1
    logger.info("the terminal at %s does not keep up and is disconnected", connection.peer)
    connection.close(close_codes.SLOW, "the terminal did not keep up", flush=False)


def drop_silent(hub: Hub, connection: PeerConnection) -> None:
    """End the connection of a terminal of which nothing is heard; its seat is free."""
    hub.meters.disconnected += 1
    logger.info("the terminal at %s is silent and is disconnected", connection.peer)
    connection.abort()


def settle(hub: Hub, key: str, answer: Answer) -> None:
    """Give the answer of a rank or its guard to all questions that it is for."""
    text = passed_on(key, answer)
    for number in hub.glances.answered(key, answer.request, text, hub.clock()):
        finished = hub.questions.answer(key, number, text)
        bound_answers(hub)
        if finished is not None:
            hub.deliver(finished)


def bound_answers(hub: Hub) -> None:
    """Close the terminal with most waiting answers, until those of all terminals are within their bound."""
    while (number := hub.questions.budget.heaviest()) is not None:
        hub.questions.budget.drop(number)
        hub.meters.budgets.hit(Payer.DRIVER, Budget.MEMORY)
        if (link := hub.terminals.get(number)) is not None:
            logger.info("the terminal at %s is closed: it has most of too many answers", link.connection.peer)
            link.connection.close(close_codes.SLOW, "its answers take too much memory; ask fewer ranks", flush=False)
            # A terminal that doesn't read takes no note of the close. Its open questions would gather more
            # answers, and these would count against terminals that read.
            lost(hub, link.connection)


def bound_ranks(hub: Hub, key: str) -> None:
    """Close this rank if it takes more memory than one may, and the heaviest ones until all are within their bound."""
    if hub.live_bytes.is_too_much(key):
        _close_heavy(hub, key, Budget.MEMORY_OF_RANK, "it says too much to keep")
    while (heaviest := hub.live_bytes.heaviest() or hub.held_ranks.heaviest()) is not None:
        _close_heavy(hub, heaviest, Budget.MEMORY, "all ranks say too much to keep, and it most")


def _close_heavy(hub: Hub, key: str, budget: Budget, why: str) -> None:
    """Close a rank and its guard, which speaks for the rank; both may come back."""
    hub.live_bytes.forget(key)
    hub.held_ranks.came_back(key)
    hub.meters.budgets.hit(Payer.RANK, budget)
    for link in (hub.ranks.get(key), hub.guards.get(key)):
        if link is not None:
            logger.warning("the rank at %s is closed: %s", link.connection.peer, why)
            link.connection.close(close_codes.SLOW, "what it reports takes too much memory", flush=False)
            lost(hub, link.connection)


def _rank_left(hub: Hub, link: RankLink) -> None:
    rank = link.rank
    if rank is None:
        return
    del hub.ranks[rank.key]
    hub.host_looks.remove(rank.key)
    hub.glances.forget(rank.key)
    hub.ask_rates.forget(rank.key)
    hub.live_bytes.forget(rank.key)
    hub.probe_schedule.remove(rank.key)
    lose(hub, rank)
    ended = "the process has ended" if rank.state is RankState.EXITED else "its connection ended"
    for finished in hub.questions.rank_ended(rank.key, ended, hub.given_to_guard(rank.key)):
        hub.deliver(finished)
    logger.info("%s (%s) is %s", rank.address, rank.key, rank.state.value)


def _guard_left(hub: Hub, link: RankLink) -> None:
    """Note that a guard's connection ended: its rank may go on, and answers for itself then."""
    key = link.guard_of
    if key is None or hub.guards.get(key) is not link:
        return
    del hub.guards[key]
    if key not in hub.ranks:
        hub.live_bytes.forget(key)
    rank = hub.registry.find(key)
    if rank is not None and rank.is_live and key not in hub.ranks:
        # The rank itself has never connected, and its guard is gone now.
        lose(hub, rank)
    elif rank is not None and rank.state is RankState.UNRESPONSIVE:
        hub.tell_rank(key, Probe(), "probe")
    for unanswered in to_guards.lose(hub, link):
        hub.tell_rank(key, unanswered)


def _terminal_left(hub: Hub, link: TerminalLink) -> None:
    del hub.terminals[link.number]
    viewer = hub.seats.viewer(link.number)
    if link.name is not None:
        audited.note(hub, link, What.LEAVE, [viewer.key] if viewer is not None else [])
    hub.watchers.pop(link.number, None)
    hub.log_listeners.set(link.number, wants=False)
    for finished in hub.questions.drop_client(link.number):
        hub.deliver(finished)
    hub.carry_out(hub.seats.leave(link.number))
