"""The targets that there are right now, for the completion of a shell: ranks, jobs and remembered groups."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dbg_wire.errors import DbgError, printable

CONNECT_SECONDS = 0.1
"""Seconds for the broker's host to answer: without a broker the user waits no longer for the rest."""

ANSWER_SECONDS = 0.8
"""Seconds for the broker to list its ranks; one of thousands of ranks takes a tenth."""

MOST_SECONDS = 60.0
"""Seconds that a user can have it wait at most."""

SECONDS = "DBG_COMPLETION_SECONDS"
"""The variable for a broker that is far away: seconds for its host as well as for its list."""

MAX_TARGETS = 2000
"""Targets that are offered: nobody reads more, and a shell sorts them each time."""

_SAFE = re.compile(r"[A-Za-z0-9._:/@?\[\]-]+")
"""What a target may consist of: a rank's host and job come from the network, and stand in a shell's line."""

_GONE = ("exited", "lost")


def remembered_targets(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the groups that this terminal remembers, each with its size. Blocks for a small file."""
    from dbg_client.core.remembered_groups import find_remembered_groups

    memory = find_remembered_groups(environ)
    for name, keys in memory.load().items() if memory is not None else ():
        if _SAFE.fullmatch(name):
            yield name, f"{len(keys)} of the last answer"


def patience(environ: Mapping[str, str]) -> tuple[float, float]:
    """Return the seconds to wait for the broker's host, and then for its list."""
    with contextlib.suppress(ValueError):
        seconds = float(environ.get(SECONDS, ""))
        if 0 < seconds <= MOST_SECONDS:
            return seconds, seconds
    return CONNECT_SECONDS, ANSWER_SECONDS


def live_ranks(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the targets of ranks and jobs, as the brokers list them that answer; none where none does.

    Blocks for the time of :func:`patience`, for each broker.
    """
    from dbg_client.core.reach import find_reach
    from dbg_dial.blocking import glance

    with contextlib.suppress(DbgError, OSError):
        reach = find_reach(None, environ, lambda path: None)
        connect, answer = patience(environ)
        found: dict[str, Mapping[str, Any]] = {}
        for route in reach.routes():
            with contextlib.suppress(DbgError, OSError, ValueError, KeyError, TypeError):
                listed = glance(route, "completion", connect_seconds=connect, seconds=answer)
                found.update((rank["identity"]["key"], rank) for rank in listed)
        with contextlib.suppress(KeyError, TypeError):
            yield from list(targets_of(found.values()))


def targets_of(ranks: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the address of each rank that is there, with its job if there are several, then all ranks of each job."""
    there = [rank for rank in ranks if rank["state"] not in _GONE]
    jobs = list(dict.fromkeys(map(_job, there)))
    several = len(jobs) > 1
    counts = Counter((_job(rank), rank["address"]) for rank in there)
    for rank in there[:MAX_TARGETS]:
        address = f"{_job(rank)}/{rank['address']}" if several else str(rank["address"])
        if counts[_job(rank), rank["address"]] > 1:
            address = f"{address}@{rank['process']['pid']}"
        if _SAFE.fullmatch(address):
            yield address, _place(rank)
    for job in jobs if several else []:
        if _SAFE.fullmatch(f"{job}/all"):
            yield f"{job}/all", "all ranks of this job"


def _job(rank: Mapping[str, Any]) -> str:
    return str(rank["identity"]["job"])


def _place(rank: Mapping[str, Any]) -> str:
    where = rank.get("halt", {}).get("where")
    if not isinstance(where, Mapping):
        return printable(str(rank["state"]))
    return printable(f"{rank['state']} {str(where['file']).rpartition('/')[2]}:{where['line']}")
