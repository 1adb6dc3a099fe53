"""The user's processes that a launcher started, and of each rank the topmost one; none of ours, and no launcher."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbg_client.adopt.process import ProcessInfo, all_pids, mappings, read_process
from dbg_client.adopt.python import find_python
from dbg_wire.errors import printable
from dbg_wire.tables.launchers import RANK_VARIABLES, is_launcher

_COMMANDS = frozenset({"dbg-attach", "dbg-broker", "dbg_client", "dbg_broker"})


_SCHEDULERS_JOB = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID")
"""The variables in which schedulers name a job: a user may have several on a node, and means the one at hand."""


_TRACKER = "from multiprocessing.resource_tracker "
"""Begin of the code of multiprocessing's helper, which has the variables of its rank."""


def is_guard(argv: Sequence[str]) -> bool:
    """Tell whether a command line is that of a rank's guard."""
    return any(word.endswith("/dbg_agent/guard/process.py") for word in argv)


def is_ours(command: Sequence[str]) -> bool:
    """Tell whether a program's words are those of a command of ours, or of a guard."""
    name = _module(command).partition(".")[0] or (command[0].rpartition("/")[2] if command else "")
    return name in _COMMANDS or is_guard(command)


def starts_ranks(command: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Tell whether a program's words are those of a launcher."""
    module = _module(command)
    return is_launcher(command[1:] if module else command, module or None, environ)


def _module(command: Sequence[str]) -> str:
    """Return the module of ``-m module``, empty for other programs."""
    return command[1] if len(command) > 1 and command[0] == "-m" else ""


def is_of_job(environ: Mapping[str, str], own: Mapping[str, str]) -> bool:
    """Tell whether a process is of the scheduler's job in which this command runs; any is where it runs in none."""
    return all(environ.get(name) == own[name] for name in _SCHEDULERS_JOB if own.get(name))


def place_of(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the variables by which launchers tell a process its rank, the innermost launcher's first; maybe none."""
    return tuple(
        (name, environ[name])
        for name, needs in RANK_VARIABLES.items()
        if environ.get(name, "").isdecimal() and (not needs or environ.get(needs))
    )


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
    seen = {pid: found for pid in all_pids() if (found := read_process(pid)) is not None and found.uid == own}
    ranks = [candidate for candidate in topmost(seen, os.environ) if _runs_python(candidate.pid)]
    python = {pid: one for pid, one in seen.items() if one.environ.get("LOCAL_RANK") is None or _runs_python(pid)}
    return ranks, overlooked(python, os.environ)


def overlooked(seen: Mapping[int, ProcessInfo], own: Mapping[str, str]) -> list[str]:
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


def topmost(seen: Mapping[int, ProcessInfo], own: Mapping[str, str]) -> list[Candidate]:
    """Return of the processes those that look like ranks and have no other of the same rank above them. Pure.

    ``own`` are the variables of this command, which say in which job of a scheduler it runs.
    """
    guarded = {found.parent for found in seen.values() if is_guard(found.argv)}
    places = {pid: place_of(found.environ) for pid, found in seen.items() if _is_meant(found, own)}
    kept = [pid for pid, place in places.items() if all(places.get(above) != place for above in _above(pid, seen))]
    candidates = [_candidate(seen[pid], int(places[pid][0][1]), is_rank=pid in guarded) for pid in kept]
    return sorted(candidates, key=lambda candidate: (candidate.rank, candidate.pid))


def _is_meant(found: ProcessInfo, own: Mapping[str, str]) -> bool:
    if found.state in "ZX" or found.pid == os.getpid() or not found.command or is_ours(found.command):
        return False
    if found.command[0] == "-c" and " ".join(found.command[1:]).startswith(_TRACKER):
        return False
    return (
        bool(place_of(found.environ))
        and is_of_job(found.environ, own)
        and not starts_ranks(found.command, found.environ)
    )


def _above(pid: int, seen: Mapping[int, ProcessInfo]) -> Sequence[int]:
    chain: list[int] = []
    while pid in seen and pid not in chain:
        chain.append(pid)
        pid = seen[pid].parent
    return chain[1:]


def _candidate(found: ProcessInfo, rank: int, *, is_rank: bool) -> Candidate:
    words = 2 if found.command[0] == "-m" else 1
    return Candidate(found.pid, rank, " ".join(found.command[:words]), found.age, is_rank)


def _runs_python(pid: int) -> bool:
    try:
        return find_python(pid, mappings(pid)) is not None
    except OSError:
        # Whether it may be adopted is said when that is tried.
        return True
