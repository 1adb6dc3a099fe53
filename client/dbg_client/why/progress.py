"""Progress of ranks between two snapshots of a job. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from dbg_client.views.tree import own_frames
from dbg_client.why.collective_matching import Matched
from dbg_client.why.condition import main_wait
from dbg_client.why.process_groups import Member, ProcessGroup, RankEvidence
from dbg_wire.records.evidence import Activity, ActivityInfo, ProcessSeen, WaitKind

COMPUTING = 0.3
"""Minimum fraction of processor time between two snapshots for a main thread to count as computing."""

LEAST_COMPUTING = 0.02
"""Minimum fraction of processor time to count as computing, for a thread in C or Python code without a known wait.

This is lower than COMPUTING, because such a thread gets little processor time on a busy host.
"""

_COMPUTES = frozenset({WaitKind.NATIVE, WaitKind.PYTHON})

MOVED_BYTES = 1 << 20
"""Minimum bytes read or written between two snapshots to count as progress. A snapshot itself reads and writes less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """Ranks that have changed within ``seconds``.

    Ranks in ``collectives`` have called or finished a collective. Ranks in ``stacks`` have moved in the user's code.
    Ranks in ``within`` have moved only in a library's code. Main threads of ranks in ``computing`` have used
    a processor. Ranks in ``data`` have read or written data. Ranks in ``loops`` sleep between retries: their stacks
    differ at each snapshot, but they make no progress.
    """

    seconds: float = 0.0
    collectives: frozenset[int] = frozenset()
    stacks: frozenset[int] = frozenset()
    within: frozenset[int] = frozenset()
    computing: frozenset[int] = frozenset()
    data: frozenset[int] = frozenset()
    loops: Mapping[int, ActivityInfo] = field(default_factory=dict)

    @property
    def moved(self) -> frozenset[int]:
        """Ranks that have made progress, in collectives or in the user's code."""
        return self.collectives | self.stacks

    @property
    def working(self) -> frozenset[int]:
        """Ranks that have changed in any way. Ranks that poll or spin change too, but need not make progress."""
        return self.moved | self.within | self.computing | self.data


def movement(before: Matched, now: Matched, seconds: float) -> JobProgress:
    """Return the changes in the ranks of one run between two snapshots."""
    both = {number: (before.roster[number], one) for number, one in now.roster.items() if _is_same(before, number, one)}
    reported = {
        number: (old.answer.frames, new.answer.frames)
        for number, (old, new) in both.items()
        if old.answer.frames and new.answer.frames
    }
    collectives = _collectives(before, now)
    loops = {number: loop for number in reported if number not in collectives and (loop := _loop(*both[number]))}
    stacks = frozenset(n for n, (old, new) in reported.items() if n not in loops and own_frames(old) != own_frames(new))
    free = _free(now) - loops.keys()
    return JobProgress(
        seconds=seconds,
        collectives=collectives,
        stacks=stacks,
        within=frozenset(number for number, (old, new) in reported.items() if old != new and number in free) - stacks,
        computing=frozenset(
            number
            for number, (old, new) in both.items()
            if _grown(old, new, "main_cpu") > _share(new) * seconds and number in free
        ),
        data=frozenset(
            number
            for number, (old, new) in both.items()
            if _grown(old, new, "input") + _grown(old, new, "output") > MOVED_BYTES
        ),
        loops=loops,
    )


def _share(one: RankEvidence) -> float:
    """Return the fraction of processor time above which a main thread counts as computing."""
    main = main_wait(one)
    return LEAST_COMPUTING if main is not None and main.kind in _COMPUTES else COMPUTING


def _loop(old: RankEvidence, new: RankEvidence) -> ActivityInfo | None:
    """Return the loop that a rank has reported, if its stack is in the loop at both snapshots; else None."""
    for one in (new, old):
        main = main_wait(one)
        if main is not None and main.does.what is Activity.LOOPS:
            own = [own_frames(other.answer.frames) for other in (old, new)]
            is_in_it = all(any(place.function == main.does.function for place in frames) for frames in own)
            return main.does if is_in_it else None
    return None


def _is_same(before: Matched, number: int, one: RankEvidence) -> bool:
    return number in before.roster and before.roster[number].rank.key == one.rank.key


def _free(now: Matched) -> frozenset[int]:
    """Return the ranks outside of collectives. In a collective, a rank may keep a processor busy without progress."""
    waiting = {number for pending in now.all_pending for number in pending.calls}
    return frozenset(number for number, one in now.roster.items() if number not in waiting and not one.is_in_collective)


def _grown(old: RankEvidence, new: RankEvidence, name: str) -> float:
    amounts = [_amount(one.evidence.process if one.evidence else None, name) for one in (old, new)]
    return amounts[1] - amounts[0] if amounts[0] is not None and amounts[1] is not None else 0.0


def _amount(process: ProcessSeen | None, name: str) -> float | None:
    amount: float | None = getattr(process, name) if process is not None else None
    return amount


def _collectives(before: Matched, now: Matched) -> frozenset[int]:
    old_groups = {_key(group): group.members for group in before.groups}
    return frozenset(
        number
        for group in now.groups
        for number, member in group.members.items()
        if (earlier := old_groups.get(_key(group), {}).get(number)) is not None
        and _is_same(before, number, now.roster[number])
        and (_reached(member.called) > _reached(earlier.called) >= 0 or _finished(member) > _finished(earlier))
    )


def _reached(number: int | None) -> float:
    return -inf if number is None else number


def _finished(member: Member) -> float:
    return -1 if member.seen.completed is None else member.seen.completed


def _key(group: ProcessGroup) -> tuple[str, str, tuple[int, ...]]:
    return group.library, group.name, group.numbers
