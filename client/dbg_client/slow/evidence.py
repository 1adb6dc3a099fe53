"""Evidence about late ranks: their stacks while other ranks wait, and the resources they are short of. Pure."""

from __future__ import annotations

import enum
import statistics
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dbg_client.slow.collective_timings import MICROSECONDS
from dbg_client.slow.lateness import GroupLateness
from dbg_client.views.tree import own_frames
from dbg_wire.libraries import collective_of
from dbg_wire.records.ranks import Place
from dbg_wire.records.samples import RankSample, Sampled

LEAST_LOOKS = 5
"""Minimum samples of a rank while others wait for it. With fewer, its place is not reported."""

MOST_SPOTS = 3
"""Maximum number of places that are reported, the most frequent ones."""

LEAST_OF_LOOKS = 0.15
"""Minimum fraction of the samples for a place to be reported."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Place of a rank: the innermost frame of the user's code, and whether it is within torch's data loader."""

    own: Place | None = None
    is_loading: bool = False


@dataclass(frozen=True, slots=True)
class LateRankLocation:
    """Most frequent places of a rank while others waited for it, each with a count; ``samples`` is the total."""

    spots: tuple[tuple[Spot, int], ...]
    samples: int


LOADER = "/torch/utils/data/"
"""Part of the path of files in torch's data loader."""


def whereabouts(sampled: Sampled, number: int, shift: float, lateness: GroupLateness) -> LateRankLocation | None:
    """Return the places of a rank while others wait for it; None if there are too few samples.

    ``shift`` is the number of seconds that its clock is ahead.
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
    return LateRankLocation(spots, seen.total()) if spots else None


def _looks(sampled: Sampled) -> Iterator[tuple[float, Spot]]:
    """Yield the time and the place of each sample outside of collectives. Times are by the rank's clock."""
    for row in sampled.places:
        if not collective_of(row.frames):
            for time in row.times:
                yield (sampled.sample.start + time) / MICROSECONDS, _spot(row.frames)


def _spot(frames: Sequence[Place]) -> Spot:
    if not frames:
        return Spot()
    return Spot((own_frames(frames) or frames)[-1], any(LOADER in place.file for place in frames))


def _is_within(at: float, windows: Sequence[tuple[float, float]]) -> bool:
    """Return True if a time is within one of these windows, which are sorted and don't overlap."""
    index = bisect_left(windows, (at, at))
    return any(start <= at <= end for start, end in windows[max(0, index - 1) : index + 1])


LEAST_SHARE = 0.05
"""Minimum fraction of the time that a rank must be short of a resource for the shortage to be reported."""

MORE = 2.0
"""Minimum ratio of a late rank's wait for a core to the median wait of the other ranks.

If all ranks waited equally long for a core, this wait would not explain why only some of them are late.
"""


class Shortage(enum.Enum):
    """Resource that a late rank is short of and the other ranks are not."""

    QUOTA = "quota"
    CORE = "core"


def shortages_of(number: int, samples: Mapping[int, RankSample]) -> tuple[Shortage, ...]:
    """Return the resources that a rank is short of and the others are not, the most certain first."""
    mine = samples.get(number)
    if mine is None or mine.seconds <= 0:
        return ()
    others = [sample for other, sample in samples.items() if other != number and sample.seconds > 0]
    used = mine.processors
    # The other ranks may be in the same cgroup but need less, so their throttling is not compared.
    is_throttled = bool(used.periods and used.throttled and used.throttled >= LEAST_SHARE * used.periods)
    return (*[Shortage.QUOTA] * is_throttled, *[Shortage.CORE] * (not used.throttled and _lacks_cores(mine, others)))


def _lacks_cores(mine: RankSample, others: Sequence[RankSample]) -> bool:
    """Return True if a rank waits for a core at least LEAST_SHARE of the time, and MORE times as long as others."""
    own = mine.processors.queued
    if own is None or own < LEAST_SHARE * mine.seconds:
        return False
    used = [(one.processors, one.seconds) for one in others]
    samples = [one.queued / seconds for one, seconds in used if one.queued is not None and not one.throttled]
    return not samples or own / mine.seconds >= MORE * statistics.median(samples)
