"""The time limits that run while ranks are stopped, such as that of other ranks' collectives. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from dbg_wire.errors import printable
from dbg_wire.records.ranks import RankInfo


def without_limit(rank: RankInfo) -> str:
    """Return what else is to be said of a rank's stop or end: its detail without the time limit at the end of it."""
    if not rank.limit or not rank.detail.endswith(rank.limit):
        return rank.detail
    return rank.detail[: -len(rank.limit)].removesuffix("; ")


def first_limits(ranks: Sequence[RankInfo]) -> list[str]:
    """Return a line for each job with time limits: the limit that ends first, and for which rank."""
    limited: defaultdict[str, list[RankInfo]] = defaultdict(list)
    for rank in ranks:
        if rank.limit:
            limited[rank.job].append(rank)
    jobs = {rank.job for rank in ranks}
    return [_line(limited[job], with_job=len(jobs) > 1) for job in sorted(limited)]


def _line(ranks: Sequence[RankInfo], *, with_job: bool) -> str:
    first = min(ranks, key=lambda rank: math.inf if rank.limit_seconds is None else rank.limit_seconds)
    name = printable(first.full_address if with_job else first.address)
    whose = f"{name} has the first of {len(ranks)} time limits" if len(ranks) > 1 else name
    return f"{whose}: {printable(first.limit)}"
