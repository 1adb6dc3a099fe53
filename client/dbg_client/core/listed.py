"""Which of the known ranks a list shows, and which a question to all is put to. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dbg_client.core.roll_call import ended_of_live_runs
from dbg_wire.errors import NoSuchRank
from dbg_wire.records.ranks import LIVE_STATES, RankInfo, RankState
from dbg_wire.targets.selection import Target, parse_target, select


def there(known: Sequence[RankInfo]) -> list[RankInfo]:
    """Return the ranks of all jobs that have not exited, one at each address."""
    left = [rank for rank in known if rank.state is not RankState.EXITED]
    return list(select(parse_target("all"), left, any_job=True).ranks) if left else []


def exited(known: Sequence[RankInfo], target: Target | None) -> list[RankInfo]:
    """Return the exited ranks that ``--all`` adds to what a target fits, or to all that is there.

    They are of the jobs that the target names, else of those that live; if none lives, of all.
    """
    gone = [rank for rank in known if rank.state is RankState.EXITED]
    if target is None or all(term.job is None for term in target.include):
        living = {rank.job for rank in known if rank.state in LIVE_STATES and not rank.is_classic}
        gone = [rank for rank in gone if not living or rank.job in living or rank.is_classic]
    return _fitting(target, gone)


def listed(
    known: Sequence[RankInfo], target: Target | None, found: Sequence[RankInfo], *, with_exited: bool
) -> list[RankInfo]:
    """Return the ranks of a list, ``found`` being those that the target fits; they are in no particular order.

    Ranks that are missing in a run that is live are among them, since they are news.
    """
    if with_exited:
        more = exited(known, target)
        shown = list(found if target is not None else there(known))
    else:
        more = _fitting(target, ended_of_live_runs(known))
        fitting = found if target is not None else there(known)
        shown = [rank for rank in fitting if rank.state is not RankState.EXITED]
    keys = {rank.key for rank in shown}
    return shown + [rank for rank in more if rank.key not in keys]


def _fitting(target: Target | None, gone: Sequence[RankInfo]) -> list[RankInfo]:
    if target is None or not gone:
        return list(gone)
    try:
        return list(select(target, gone, any_job=True).ranks)
    except NoSuchRank:
        return []
