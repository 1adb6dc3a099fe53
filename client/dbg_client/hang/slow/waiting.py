"""Who waits least in the collectives of a library that records nothing, as MPI: by looks at all ranks. Pure.

A rank for which others wait has no time to wait itself.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from dbg_client.hang.slow.samples import SampledRun
from dbg_client.hang.slow.whereabouts import is_in_collective
from dbg_wire.records.samples import SampledPlace
from dbg_wire.tables.collectives import collective_of

LEAST_LOOKS = 10
"""Looks at each rank from which on they are compared."""

LEAST_LESS = 0.15
"""The part of the looks by which a rank waits less than the others to be late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Ranks of a group that wait less than the others in its collectives; none if all wait about as long.

    ``waits`` is the part of its looks in which each member was seen in one, ``looks`` how many looks there were.
    """

    label: str
    call: str
    ranks: tuple[int, ...]
    waits: dict[int, float]
    looks: int

    @property
    def least(self) -> float:
        """Return in which part of the looks the late ranks wait, or all."""
        return statistics.median(self.waits[number] for number in (self.ranks or self.waits))

    @property
    def others(self) -> float:
        """Return in which part of the looks the others wait."""
        return statistics.median(share for number, share in self.waits.items() if number not in self.ranks)


def waiting_of(run: SampledRun) -> list[Waiting]:
    """Return for each group who waits least in it; groups that nobody was seen to wait in are left out."""
    members = {group.name: (group.label, group.numbers) for group in run.groups}
    seen: defaultdict[str, dict[int, int]] = defaultdict(dict)
    calls: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for number, sampled in run.told.items():
        for place in sampled.places:
            if is_in_collective(place):
                seen[place.group][number] = seen[place.group].get(number, 0) + len(place.times)
                calls[place.group][_name(place)] += len(place.times)
    found = []
    for name, counts in seen.items():
        label, numbers = members.get(name, ("", tuple(run.told)))
        asked = [number for number in numbers if number in run.told]
        looks = min((run.told[number].sample.looks for number in asked), default=0)
        if looks >= LEAST_LOOKS and len(asked) > 1:
            waits = {number: counts.get(number, 0) / run.told[number].sample.looks for number in asked}
            call = calls[name].most_common(1)[0][0]
            found.append(Waiting(label=label, call=call, ranks=_least(waits), waits=waits, looks=looks))
    return found


def _name(place: SampledPlace) -> str:
    return place.call or collective_of(place.frames)


def _least(waits: dict[int, float]) -> tuple[int, ...]:
    """Return the few ranks that wait less than the others."""
    ordered: Sequence[float] = sorted(waits.values())
    usual = ordered[len(ordered) // 2]
    if usual - ordered[0] < LEAST_LESS:
        return ()
    late = tuple(number for number, share in waits.items() if share <= (ordered[0] + usual) / 2)
    return late if 2 * len(late) <= len(waits) else ()
