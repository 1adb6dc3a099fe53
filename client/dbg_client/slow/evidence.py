"""What looks at main threads and the kernel tell of late ranks: where they are meanwhile, and what they lack. Pure."""

from __future__ import annotations

import enum
import statistics
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dbg_client.slow.lateness import GroupLateness
from dbg_client.slow.meetings import MICROSECONDS
from dbg_client.views.tree import own_frames
from dbg_wire.libraries import collective_of
from dbg_wire.records.ranks import Place
from dbg_wire.records.samples import RankSample, Sampled

LEAST_LOOKS = 5
"""Looks at a rank while others wait for it that tell where it is; with fewer, nothing is told."""

MOST_SPOTS = 3
"""Places that are told, the most frequent ones."""

LEAST_OF_LOOKS = 0.15
"""The part of the looks from which on a place is told."""


@dataclass(frozen=True, slots=True)
class Spot:
    """One place of a rank: the innermost frame of the user's own code, maybe within torch's data loader."""

    own: Place | None = None
    is_loading: bool = False


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """The places at which a rank was seen most often while others waited for it, in how many of ``looks``."""

    spots: tuple[tuple[Spot, int], ...]
    looks: int


LOADER = "/torch/utils/data/"
"""The part of a path that the files of torch's data loader have."""


def whereabouts(sampled: Sampled, number: int, shift: float, lateness: GroupLateness) -> Whereabouts | None:
    """Return where a rank is while others wait for it; None if no look tells.

    ``shift`` is by how many seconds its clock is ahead.
    """
    windows = [
        (meeting.typical + shift, meeting.came[number] + shift)
        for meeting in lateness.delayed
        if meeting.came.get(number, 0.0) > meeting.typical
    ]
    seen = Counter(spot for at, spot in _looks(sampled) if _is_within(at, windows))
    if seen.total() < LEAST_LOOKS:
        return None
    spots = tuple(one for one in seen.most_common(MOST_SPOTS) if one[1] >= LEAST_OF_LOOKS * seen.total())
    return Whereabouts(spots, seen.total()) if spots else None


def _looks(sampled: Sampled) -> Iterator[tuple[float, Spot]]:
    """Yield when a rank was seen outside of collectives, by its own clock, and where."""
    for row in sampled.places:
        if not collective_of(row.frames):
            for time in row.times:
                yield (sampled.sample.begin + time) / MICROSECONDS, _spot(row.frames)


def _spot(frames: Sequence[Place]) -> Spot:
    if not frames:
        return Spot()
    return Spot((own_frames(frames) or frames)[-1], any(LOADER in place.file for place in frames))


def _is_within(at: float, windows: Sequence[tuple[float, float]]) -> bool:
    """Tell whether a time is within one of these windows, which follow one another."""
    index = bisect_left(windows, (at, at))
    return any(begin <= at <= end for begin, end in windows[max(0, index - 1) : index + 1])


LEAST_SHARE = 0.05
"""The part of the time for which a rank lacks something from which on that is told."""

MORE = 2.0
"""How many times as much a late rank lacks as the others to be told, since they would be late by it, too."""


class Lack(enum.Enum):
    """What the kernel keeps from a late rank while the others have it."""

    QUOTA = "quota"
    CORE = "core"


def lacks_of(number: int, samples: Mapping[int, RankSample]) -> tuple[Lack, ...]:
    """Return what a rank lacks and the others have, the surest first."""
    mine = samples.get(number)
    if mine is None or mine.seconds <= 0:
        return ()
    others = [sample for other, sample in samples.items() if other != number and sample.seconds > 0]
    used = mine.processors
    # The others may be in the same group, and yet need less.
    is_throttled = bool(used.periods and used.throttled and used.throttled >= LEAST_SHARE * used.periods)
    return (*[Lack.QUOTA] * is_throttled, *[Lack.CORE] * (not used.throttled and _lacks_cores(mine, others)))


def _lacks_cores(mine: RankSample, others: Sequence[RankSample]) -> bool:
    """Tell whether a rank waits for a core for a good part of the time, and clearly longer than the others."""
    own = mine.processors.queued
    if own is None or own < LEAST_SHARE * mine.seconds:
        return False
    used = [(one.processors, one.seconds) for one in others]
    told = [one.queued / seconds for one, seconds in used if one.queued is not None and not one.throttled]
    return not told or own / mine.seconds >= MORE * statistics.median(told)
