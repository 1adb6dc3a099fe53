"""Ranks that fall silent, are lost, or are forgotten: what follows for other ranks and terminals."""

from __future__ import annotations

from dbg_broker.hub.state import Hub
from dbg_broker.ranks.liveness import is_dead
from dbg_broker.ranks.rank_record import RankRecord
from dbg_wire.messages import RefusalCode
from dbg_wire.records.ranks import RankState


def fell_silent(hub: Hub, rank: RankRecord) -> None:
    """Note that a rank, if it is connected, does not answer."""
    if rank.is_live and rank.state is not RankState.UNRESPONSIVE:
        hub.registry.fell_silent(rank)
        hub.rank_changed(rank)
        hub.listing.changed(rank.key)
        hub.silent.add(rank.key)


def look_for_process(hub: Hub, rank: RankRecord) -> None:
    """Look whether the process of a rank that lost its connection is gone as well, now and again later."""
    if hub.kernel is not None and rank.said.kernel == hub.kernel:
        _check_death(hub, rank.key, 0, hub.clock())


def check_deaths(hub: Hub, now: float) -> None:
    """Look again for the processes that are due."""
    for key, attempt in hub.death_checks.due(now):
        _check_death(hub, key, attempt, now)


def forget(hub: Hub, key: str, why: str = "the rank ended long ago and is forgotten") -> None:
    """Forget a rank that the registry has removed, and tell its terminals."""
    hub.listing.changed(key)
    hub.recorded.forget(key)
    hub.first_failures.forget(key)
    hub.held_ranks.forget(key)
    if hub.occasions is not None:
        hub.occasions.forget(key)
    if hub.crashed_ranks.forget(key):
        hub.spread.changed()
    for number in hub.seats.rank_gone(key):
        hub.refuse(hub.terminals[number].connection, RefusalCode.GONE, why)


def note_failure(hub: Hub, rank: RankRecord) -> None:
    """Note how a rank has ended, and tell of the ranks that were ended since another one of their run had failed."""
    for other in hub.first_failures.note(rank, hub.registry.ranks):
        hub.registry.killed(other)
        hub.listing.changed(other.key)


def _check_death(hub: Hub, key: str, attempt: int, now: float) -> None:
    rank = hub.registry.find(key)
    if rank is None or rank.state is not RankState.LOST:
        return
    if is_dead(rank.said.pid):
        hub.registry.found_dead(rank, now)
        hub.rank_changed(rank)
        hub.listing.changed(key)
        note_failure(hub, rank)
    else:
        hub.death_checks.put(key, attempt, now)
