"""What has moved between two looks at a job, and the verdict that it is busy. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from dbg_client.core.collective_matching import Matched
from dbg_client.core.process_groups import ProcessGroup, RankEvidence, Roster
from dbg_client.hang.collective_verdicts import Scene
from dbg_client.hang.verdict import Verdict, VerdictKind
from dbg_client.views.tree import is_library
from dbg_wire.errors import printable
from dbg_wire.records.evidence import ProcessSeen
from dbg_wire.records.ranks import Place

COMPUTING = 0.3
"""Part of the time between two looks that a thread which computes has had a processor."""

MOVED_BYTES = 1 << 20
"""Bytes read or written between two looks that are more than what the looks themselves cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """What has changed in ``seconds``: in collectives for each group, from the number before to the number now.

    ``stacks`` are the ranks that are elsewhere in the user's code, ``within`` those that are elsewhere in a library's
    alone, ``computing`` those whose main thread had a processor, ``data`` those that have read or written.
    """

    seconds: float = 0.0
    collectives: Mapping[str, tuple[str, int, int, frozenset[int]]] = field(default_factory=dict)
    stacks: frozenset[int] = frozenset()
    within: frozenset[int] = frozenset()
    computing: frozenset[int] = frozenset()
    data: frozenset[int] = frozenset()

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
    """Return what has changed in the ranks of one run."""
    both = {number: (before.roster[number], one) for number, one in now.roster.items() if _is_same(before, number, one)}
    told = {number: (old, new) for number, (old, new) in both.items() if old.answer.frames and new.answer.frames}
    stacks = frozenset(number for number, (old, new) in told.items() if _own(old) != _own(new))
    free = _free(now)
    return Movement(
        seconds=seconds,
        collectives=_collectives(before, now),
        stacks=stacks,
        within=frozenset(
            number for number, (old, new) in told.items() if old.answer.frames != new.answer.frames and number in free
        )
        - stacks,
        computing=frozenset(
            number
            for number, (old, new) in both.items()
            if _grown(old, new, "main_cpu") > COMPUTING * seconds and number in free
        ),
        data=frozenset(
            number
            for number, (old, new) in both.items()
            if _grown(old, new, "input") + _grown(old, new, "output") > MOVED_BYTES
        ),
    )


def busy_verdict(scene: Scene, moved: Movement, notes: tuple[str, ...]) -> Verdict:
    """Return the verdict that all ranks get on; ``notes`` are its evidence."""
    roster = scene.matched.roster
    return Verdict(
        kind=VerdictKind.BUSY,
        job=scene.job,
        sentence=f"everybody is busy: in {moved.seconds:.1f} s {_what(moved, roster)}",
        ranks=tuple(sorted(moved.moved)),
        evidence=notes,
        **_leading(moved),  # type: ignore[arg-type] # the names and types of three fields
    )


def _leading(moved: Movement) -> dict[str, object]:
    if not moved.collectives:
        return {}
    label, (name, _, now, _) = max(moved.collectives.items(), key=lambda item: (len(item[1][3]), item[0]))
    return {"group": label, "collective": name or None, "sequence": now}


def _what(moved: Movement, roster: Roster) -> str:
    if moved.collectives:
        label, (name, before, now, numbers) = max(
            moved.collectives.items(), key=lambda item: (len(item[1][3]), item[0])
        )
        call = f"{printable(name, 60)} #{before}" if name else f"collective #{before}"
        return f"{_count(len(numbers), len(roster))} went from {call} to #{now} of {printable(label, 100)}"
    return f"{_count(len(moved.stacks), len(roster))} moved in their code"


def _count(count: int, of: int) -> str:
    if of == 1:
        return "the only rank"
    return f"all {of} ranks" if count == of else f"{count} of {of} ranks"


def _is_same(before: Matched, number: int, one: RankEvidence) -> bool:
    return number in before.roster and before.roster[number].rank.key == one.rank.key


def _own(one: RankEvidence) -> list[Place]:
    """Return the part of a stack that is in the user's code."""
    return [place for place in one.answer.frames if not is_library(place.file)]


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
