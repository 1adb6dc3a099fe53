"""What looks at main threads tell: where a rank is while others wait for it, and who waits least, as in MPI. Pure."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dbg_client.slow.lateness import GroupLateness
from dbg_client.slow.meetings import MICROSECONDS, SampledRun
from dbg_client.views.tree import own_frames, show_frame
from dbg_wire.records.ranks import Place
from dbg_wire.records.samples import Sampled, SampledPlace
from dbg_wire.tables.collectives import collective_of

LEAST_LOOKS = 5
"""Looks at a rank while others wait for it that tell where it is; with fewer, all looks outside of collectives do."""

MOST_PLACES = 3
"""Places that are told, the most frequent ones."""

LEAST_SHARE = 0.15
"""The part of the looks from which on a place is told."""

IN_COLLECTIVE = "a collective", ""
"""The place of a rank in any collective."""

LOADER = "/torch/utils/data/"
"""The part of a path that the files of torch's data loader have."""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """A line of the user's for a late rank, as ``load data.py:17``, and in how many of how many looks it was there.

    ``is_awaited`` says that the looks are those in which others waited for it.
    """

    place: str
    looks: int
    of: int
    is_awaited: bool


def whereabouts(run: SampledRun, lateness: GroupLateness, number: int) -> list[Whereabouts]:
    """Return where a late rank is while others wait for it, the most frequent place first; empty if no look tells."""
    sampled = run.told.get(number)
    if sampled is None:
        return []
    shift = run.shift(number)
    windows = [
        (meeting.typical + shift, meeting.came[number] + shift)
        for meeting in lateness.delayed
        if meeting.came.get(number, 0.0) > meeting.typical
    ]
    awaited = Counter(place for at, place in _looks(sampled) if _is_within(at, windows))
    if sum(awaited.values()) >= LEAST_LOOKS:
        return _told(awaited, is_awaited=True)
    return outside_of_collectives(sampled)


def outside_of_collectives(sampled: Sampled) -> list[Whereabouts]:
    """Return where a rank is while it is in no collective, the most frequent place first."""
    looks = Counter(place for _, place in _looks(sampled) if place is not IN_COLLECTIVE)
    return _told(looks, is_awaited=False)


def is_in_collective(place: SampledPlace) -> bool:
    """Tell whether the main thread was in a collective there."""
    return bool(place.call or collective_of(place.frames))


def _looks(sampled: Sampled) -> Iterator[tuple[float, tuple[str, str]]]:
    """Yield when a rank was seen, by its own clock, and where; ``IN_COLLECTIVE`` for a collective."""
    begin = sampled.sample.begin
    for row in sampled.places:
        place = IN_COLLECTIVE if is_in_collective(row) else _place(row.frames)
        for time in row.times:
            yield (begin + time) / MICROSECONDS, place


def _place(frames: Sequence[Place]) -> tuple[str, str]:
    """Return the innermost frame of the user's own code, and what it calls in a library, empty if nothing."""
    if not frames:
        return "other places", ""
    own = (own_frames(frames) or frames)[-1]
    if own is frames[-1]:
        return show_frame(own), ""
    loads = any(LOADER in place.file for place in frames)
    return show_frame(own), "the data loader" if loads else show_frame(frames[-1])


def _is_within(at: float, windows: Sequence[tuple[float, float]]) -> bool:
    """Tell whether a time is within one of these windows, which follow one another."""
    index = bisect_left(windows, (at, at))
    return any(begin <= at <= end for begin, end in windows[max(0, index - 1) : index + 1])


def _told(counts: Mapping[tuple[str, str], int], *, is_awaited: bool) -> list[Whereabouts]:
    """Return the most frequent lines of the user's, with what each calls in a library if it mostly is there."""
    called: dict[str, Counter[str]] = defaultdict(Counter)
    for (own, library), count in counts.items():
        called[own][library] += count
    of = sum(counts.values())
    ordered = sorted(((libraries.total(), own) for own, libraries in called.items()), key=lambda one: (-one[0], one[1]))
    told = []
    for count, own in ordered[:MOST_PLACES]:
        library, most = called[own].most_common(1)[0]
        place = f"{own}, in {library}" if library and most > count / 2 else own
        if count >= LEAST_SHARE * of:
            told.append(Whereabouts(place, count, of, is_awaited))
    return told


LEAST_COMPARED = 10
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
        if looks >= LEAST_COMPARED and len(asked) > 1:
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
