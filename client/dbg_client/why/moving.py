"""What has moved between the looks at a job. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dbg_client.views.tree import own_frames
from dbg_client.why.collective_matching import Matched
from dbg_client.why.condition import main_wait
from dbg_client.why.process_groups import ProcessGroup, RankEvidence
from dbg_wire.records.evidence import Doing, ProcessSeen, WaitKind, What

COMPUTING = 0.3
"""Part of the time between two looks that a thread which computes has had a processor."""

LEAST_COMPUTING = 0.02
"""The same of a thread that is in no wait that is known: a busy host leaves it little."""

_COMPUTES = frozenset({WaitKind.NATIVE, WaitKind.PYTHON})

MOVED_BYTES = 1 << 20
"""Bytes read or written between two looks that are more than what the looks themselves cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """What has changed in ``seconds``: in collectives for each group, from the number before to the number now.

    ``stacks`` are the ranks that are elsewhere in the user's code, ``within`` those that are elsewhere in a library's
    alone, ``computing`` those whose main thread had a processor, ``data`` those that have read or written. ``loops``
    say of ranks that they sleep between tries: they are elsewhere at each look, and get on no more than who stands.
    """

    seconds: float = 0.0
    collectives: Mapping[str, tuple[str, int, int, frozenset[int]]] = field(default_factory=dict)
    stacks: frozenset[int] = frozenset()
    within: frozenset[int] = frozenset()
    computing: frozenset[int] = frozenset()
    data: frozenset[int] = frozenset()
    loops: Mapping[int, Doing] = field(default_factory=dict)
    awake: frozenset[int] = frozenset()
    """Ranks that sleep at both looks and have moved between."""

    @property
    def in_collectives(self) -> frozenset[int]:
        """Return the ranks that have called or finished a collective."""
        return frozenset(number for _, _, _, numbers in self.collectives.values() for number in numbers)

    @property
    def moved(self) -> frozenset[int]:
        """Return the ranks that have got on: in collectives, or in the user's code."""
        return self.in_collectives | self.stacks

    @property
    def working(self) -> frozenset[int]:
        """Return the ranks that have moved in any way. What polls or spins does so as well, and need not get on."""
        return self.moved | self.within | self.computing | self.data


def movement(before: Matched, now: Matched, seconds: float) -> Movement:
    """Return what has changed in the ranks of one run from the first of some looks to the last."""
    both = {number: (before.roster[number], one) for number, one in now.roster.items() if _is_same(before, number, one)}
    told = {
        number: (old.answer.frames, new.answer.frames)
        for number, (old, new) in both.items()
        if old.answer.frames and new.answer.frames
    }
    collectives = _collectives(before, now)
    counted = {number for _, _, _, numbers in collectives.values() for number in numbers}
    loops = {number: loop for number in told if number not in counted and (loop := _loop(*both[number]))}
    stacks = frozenset(n for n, (old, new) in told.items() if n not in loops and own_frames(old) != own_frames(new))
    free = _free(now) - loops.keys()
    return Movement(
        seconds=seconds,
        collectives=collectives,
        stacks=stacks,
        within=frozenset(number for number, (old, new) in told.items() if old != new and number in free) - stacks,
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
        awake=frozenset(number for number, (old, new) in both.items() if _has_slept_again(old, new)),
    )


def _has_slept_again(old: RankEvidence, new: RankEvidence) -> bool:
    """Return whether a main thread sleeps at both looks, and not all the time between: the rank has seen it move."""
    mains = [main_wait(one) for one in (old, new)]
    return new.answer.age is None and all(main is not None and main.kind is WaitKind.SLEEP for main in mains)


def _share(one: RankEvidence) -> float:
    """Return the part of the time above which a main thread computes: one that waits uses none."""
    main = main_wait(one)
    return LEAST_COMPUTING if main is not None and main.kind in _COMPUTES else COMPUTING


def _loop(old: RankEvidence, new: RankEvidence) -> Doing | None:
    """Return the loop of a rank that has told of it at a look, and is in it at both; None if there is none."""
    for one in (new, old):
        main = main_wait(one)
        if main is not None and main.does.what is What.LOOPS:
            own = [own_frames(other.answer.frames) for other in (old, new)]
            is_in_it = all(any(place.function == main.does.function for place in frames) for frames in own)
            return main.does if is_in_it else None
    return None


def last_of(moved: Movement) -> dict[str, Any]:
    """Return group, name and number of the last collective of the group in which most ranks have got on."""
    if not moved.collectives:
        return {}
    label, (name, _, now, _) = leading(moved)
    return {"group": label, "collective": name or None, "sequence": now}


def leading(moved: Movement) -> tuple[str, tuple[str, int, int, frozenset[int]]]:
    """Return the group in which most ranks have got on, and what of its collectives has changed."""
    return max(moved.collectives.items(), key=lambda item: (len(item[1][3]), item[0]))


def _is_same(before: Matched, number: int, one: RankEvidence) -> bool:
    return number in before.roster and before.roster[number].rank.key == one.rank.key


def _free(now: Matched) -> frozenset[int]:
    """Return the ranks that wait in no collective: some libraries keep a processor busy while they wait."""
    waiting = {number for standing in now.standings for number in standing.calls}
    return frozenset(number for number, one in now.roster.items() if number not in waiting and not one.is_in_collective)


def _grown(old: RankEvidence, new: RankEvidence, name: str) -> float:
    amounts = [_amount(one.evidence.process if one.evidence else None, name) for one in (old, new)]
    return amounts[1] - amounts[0] if amounts[0] is not None and amounts[1] is not None else 0.0


def _amount(process: ProcessSeen | None, name: str) -> float | None:
    amount: float | None = getattr(process, name) if process is not None else None
    return amount


def _collectives(before: Matched, now: Matched) -> dict[str, tuple[str, int, int, frozenset[int]]]:
    old_groups = {_key(group): group for group in before.groups}
    found = {}
    for group in now.groups:
        old = old_groups.get(_key(group))
        steps: defaultdict[int, tuple[int, int]] = defaultdict()
        for number, member in group.members.items() if old is not None else ():
            earlier = old.members.get(number) if old is not None else None
            if earlier is None or not _is_same(before, number, now.roster[number]):
                continue
            was, is_now = earlier.called, member.called
            if was is not None and is_now is not None and is_now > was:
                steps[number] = was, is_now
            elif _finished(group, number) > _finished(old, number):
                steps[number] = max(was or 0, 0), max(is_now or 0, 0)
        if steps:
            first, last = min(was for was, _ in steps.values()), max(now for _, now in steps.values())
            found[group.label] = (_name(group, first, last), first, last, frozenset(steps))
    return found


def _finished(group: ProcessGroup | None, number: int) -> int:
    completed = group.members[number].seen.completed if group is not None else None
    return completed if completed is not None else -1


def _name(group: ProcessGroup, first: int, last: int) -> str:
    """Return what the collectives from the first to the last are called, if all that are known have one name."""
    names = {
        call.name
        for member in group.members.values()
        for call in member.calls
        if call.sequence is not None and first <= call.sequence <= last and call.name
    }
    return names.pop() if len(names) == 1 else ""


def _key(group: ProcessGroup) -> tuple[str, str, tuple[int, ...]]:
    return group.library, group.name, group.numbers
