"""Ranks as a broker lists them, made from their addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, TypeVar

from dbg_wire.records.ranks import (
    DIED,
    End,
    EndKind,
    ListedStop,
    Placement,
    RankIdentity,
    RankInfo,
    RankProcess,
    RankState,
    SeatCounts,
)
from dbg_wire.records.record import Record

keys = count()

R = TypeVar("R", bound=Record)

_NESTED: Mapping[str, type[Record]] = {
    "identity": RankIdentity,
    "placement": Placement,
    "process": RankProcess,
    "halt": ListedStop,
    "end": End,
    "seats": SeatCounts,
}


def record_of(kind: type[R], flat: Mapping[str, Any]) -> R:
    """Make a registration or a listed rank of the names that JSON has: each stands in the record that holds it."""
    own, nested = _sorted_out(kind, flat)
    made: dict[str, Any] = {name: _NESTED[name](**parts) for name, parts in nested.items()}
    return kind(**{**made, **own})


def changed(rank: R, **flat: Any) -> R:
    """Return a registration or a listed rank with other values under the names that JSON has."""
    own, nested = _sorted_out(type(rank), flat)
    made = {name: (getattr(rank, name) or _NESTED[name]()).replace(**parts) for name, parts in nested.items()}
    return rank.replace(**{**made, **own})


def _sorted_out(kind: type[Record], flat: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    own: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for flat_name, value in flat.items():
        name = "number" if flat_name == "stop" else flat_name
        holders = [one for one in _NESTED if one in kind.__struct_fields__ and name in _NESTED[one].__struct_fields__]
        if name == "error" and flat.get("state") is RankState.EXITED:
            # What a rank that has ended says is about its end, not about its last stop.
            holders = ["end"]
        if name == "reason" and value == DIED:
            nested.setdefault("end", {})["kind"] = EndKind.DIED
            continue
        if flat_name in kind.__struct_fields__ or not holders:
            own[flat_name] = value
        else:
            nested.setdefault(holders[0], {})[name] = value
    return own, nested


def listed(**flat: Any) -> RankInfo:
    """Make a listed rank of the names that JSON has; ``host:?1`` is the address of a stock debugger."""
    made = record_of(RankInfo, flat)
    return made.replace(placement=None) if "?" in made.address else made


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
    return listed(
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
        release="0.1.0",
        python="3.11.7",
        state=state,
        reason=reason,
        since=since,
    )


def block(job: str, hosts: Sequence[str], per_host: int) -> list[RankInfo]:
    """Make the ranks of a job that are numbered host by host."""
    return [
        rank(f"{host}:{node * per_host + local}", job=job, local=local)
        for node, host in enumerate(hosts)
        for local in range(per_host)
    ]
