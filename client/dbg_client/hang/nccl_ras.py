"""What NCCL's RAS adds to a verdict: processes that it does not reach, and ranks that have launched fewer operations.

Pure. Tested on replies in the form that NCCL documents; it was not run on GPUs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from dbg_client.core.collective_matching import Matched
from dbg_client.core.rank_evidence import Roster
from dbg_client.core.roll_call import Run
from dbg_client.hang.explain import Explanation
from dbg_client.hang.verdict import VerdictKind
from dbg_wire.errors import printable
from dbg_wire.records.ras import MISSING, RasRank, RasStatus

NCCL = "nccl"

MAX_LINES = 8
"""Lines that are added to a verdict."""


def uses_nccl(matched: Matched) -> bool:
    """Return whether a group of the run has NCCL as its backend."""
    return any(NCCL in member.seen.backend for group in matched.groups for member in group.members.values())


def ras_lines(status: RasStatus, roster: Roster) -> list[str]:
    """Return a line for each state of ranks that RAS does not reach, and for each operation that ranks lag in."""
    lines = [*_unreached(status, roster), *_behind(status, roster)]
    left_out = len(lines) - MAX_LINES
    shown = [f"NCCL's RAS: {line}" for line in lines[:MAX_LINES]]
    return [*shown, f"NCCL's RAS: and {left_out} more"] if left_out > 0 else shown


def with_ras(found: Explanation, run: Run, lines: Sequence[str]) -> Explanation:
    """Return the verdicts with these lines below the worst one on a run's job that is not busy."""
    verdicts = list(found.verdicts)
    for index, verdict in enumerate(verdicts):
        if verdict.job == run[0] and verdict.kind is not VerdictKind.BUSY:
            verdicts[index] = replace(verdict, evidence=(*verdict.evidence, *lines))
            break
    return replace(found, verdicts=tuple(verdicts))


def _unreached(status: RasStatus, roster: Roster) -> list[str]:
    states: defaultdict[str, list[str]] = defaultdict(list)
    for rank in status.ranks:
        if rank.state in MISSING:
            states[rank.state].append(_name(rank.host, rank.pid, roster) or f"rank {rank.rank} of {rank.communicator}")
    for process in status.processes:
        states[process.state].append(_name(process.host, process.pid, roster) or f"{process.host} pid {process.pid}")
    return [f"{printable(state, 40)}: {_few(names)}" for state, names in sorted(states.items())]


def _behind(status: RasStatus, roster: Roster) -> list[str]:
    launched: defaultdict[tuple[str, str], list[tuple[RasRank, int]]] = defaultdict(list)
    for rank in status.ranks:
        for operation in rank.counts:
            launched[rank.communicator, operation.name].append((rank, operation.count))
    lines = []
    for (communicator, name), counts in sorted(launched.items(), key=lambda item: item[0]):
        usual = Counter(count for _, count in counts).most_common(1)[0][0]
        late = [(rank, count) for rank, count in counts if count < usual]
        if late:
            shown = _few([f"{_name(one.host, one.pid, roster) or f'rank {one.rank}'}: {count}" for one, count in late])
            lines.append(f"{printable(name, 40)} of {printable(communicator, 40)}, most: {usual}, {shown}")
    return lines


def _name(host: str, pid: int | None, roster: Roster) -> str:
    """Return the rank with this process; empty if none or several of the run may be it."""
    same = [number for number, one in roster.items() if pid is not None and one.rank.pid == pid]
    here = [number for number in same if roster[number].rank.host == host.partition(".")[0]]
    found = here or same
    return f"rank {found[0]}" if len(found) == 1 else ""


def _few(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(printable(name, 80) for name in names))
    return ", ".join(unique[:4]) + (f" and {len(unique) - 4} more" if len(unique) > 4 else "")
