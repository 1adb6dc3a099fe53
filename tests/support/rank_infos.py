"""Ranks as a broker lists them, made from their addresses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from dbg_wire.records.ranks import RankInfo, RankState

keys = count()


def rank(
    address: str,
    *,
    job: str = "A",
    local: int | None = None,
    pid: int = 1,
    state: RankState = RankState.STOPPED,
    reason: str | None = None,
    since: float = 0.0,
) -> RankInfo:
    """Make a rank from its address; a classic session gets the rank number 0."""
    host, _, number = address.rpartition(":")
    first, _, child = number.partition(".")
    return RankInfo(
        key=f"key-{next(keys)}",
        address=address,
        job=job,
        run="run",
        host=host,
        rank=int(first) if first.isdecimal() else 0,
        local_rank=local,
        world_size=8,
        child=int(child) if child else None,
        pid=pid,
        script="train.py",
        directory="/home/me",
        state=state,
        reason=reason,
        since=since,
    )


def block(job: str, hosts: Sequence[str], per_host: int, state: RankState = RankState.STOPPED) -> list[RankInfo]:
    """Make the ranks of a job that are numbered host by host."""
    return [
        rank(f"{host}:{node * per_host + local}", job=job, local=local, state=state)
        for node, host in enumerate(hosts)
        for local in range(per_host)
    ]
