"""The user's processes that a launcher started, and of each rank the topmost one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbg_client.adopt.own import is_guard, is_of_job, is_ours, place_of, starts_ranks
from dbg_client.adopt.process import Seen, all_pids, look, mappings
from dbg_client.adopt.python import find_python
from dbg_wire.errors import printable


@dataclass(frozen=True, slots=True)
class Candidate:
    """A process that looks like a rank; ``rank`` is its number as its launcher counts, ``is_rank`` that it is one."""

    pid: int
    rank: int
    script: str
    age: float
    is_rank: bool = False


def find_mine() -> tuple[list[Candidate], list[str]]:
    """Return the processes of this user that look like ranks, by rank, and sentences on those that nearly do.

    Blocks for files of ``/proc``.
    """
    own = os.geteuid()
    seen = {pid: found for pid in all_pids() if (found := look(pid)) is not None and found.uid == own}
    ranks = [candidate for candidate in topmost(seen, os.environ) if _runs_python(candidate.pid)]
    python = {pid: one for pid, one in seen.items() if one.environ.get("LOCAL_RANK") is None or _runs_python(pid)}
    return ranks, overlooked(python, os.environ)


def overlooked(seen: Mapping[int, Seen], own: Mapping[str, str]) -> list[str]:
    """Return a printable sentence for each process with a LOCAL_RANK of its own that is taken for no rank. Pure."""
    told = []
    kept = {candidate.pid for candidate in topmost(seen, own)}
    for pid, found in sorted(seen.items()):
        local = found.environ.get("LOCAL_RANK", "")
        parent = seen.get(found.parent)
        is_inherited = parent is not None and parent.environ.get("LOCAL_RANK") == local
        if not local.isdecimal() or is_inherited or pid in kept or found.environ.get("MASTER_ADDR"):
            continue
        if found.state not in "ZX" and found.command and not is_ours(found.command) and is_of_job(found.environ, own):
            who = f"process {pid} ({printable(' '.join(found.command[: 2 if found.command[0] == '-m' else 1]))})"
            why = f"has LOCAL_RANK={printable(local)} and no MASTER_ADDR, so that it is taken for no rank"
            told.append(f"{who} {why}; `dbg-attach adopt {pid}` takes it all the same")
    return told


def topmost(seen: Mapping[int, Seen], own: Mapping[str, str]) -> list[Candidate]:
    """Return of the processes those that look like ranks and have no other of the same rank above them. Pure.

    ``own`` are the variables of this command, which say in which job of a scheduler it runs.
    """
    guarded = {found.parent for found in seen.values() if is_guard(found.argv)}
    places = {pid: place_of(found.environ) for pid, found in seen.items() if _is_meant(found, own)}
    kept = [pid for pid, place in places.items() if all(places.get(above) != place for above in _above(pid, seen))]
    candidates = [_candidate(seen[pid], int(places[pid][0][1]), is_rank=pid in guarded) for pid in kept]
    return sorted(candidates, key=lambda candidate: (candidate.rank, candidate.pid))


def _is_meant(found: Seen, own: Mapping[str, str]) -> bool:
    if found.state in "ZX" or found.pid == os.getpid() or not found.command or is_ours(found.command):
        return False
    return (
        bool(place_of(found.environ))
        and is_of_job(found.environ, own)
        and not starts_ranks(found.command, found.environ)
    )


def _above(pid: int, seen: Mapping[int, Seen]) -> Sequence[int]:
    chain: list[int] = []
    while pid in seen and pid not in chain:
        chain.append(pid)
        pid = seen[pid].parent
    return chain[1:]


def _candidate(found: Seen, rank: int, *, is_rank: bool) -> Candidate:
    words = 2 if found.command[0] == "-m" else 1
    return Candidate(found.pid, rank, " ".join(found.command[:words]), found.age, is_rank)


def _runs_python(pid: int) -> bool:
    try:
        return find_python(pid, mappings(pid)) is not None
    except OSError:
        # Whether it may be adopted is said when that is tried.
        return True
