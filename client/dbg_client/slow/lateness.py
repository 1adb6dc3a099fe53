"""Ranks of a group that arrive last at its collectives: how often, by how much, and the cost. Pure.

The lateness of a rank is the time between the arrival of the typical rank and its own. After all other ranks have
arrived, the job loses time until the late ranks have arrived, too. If a different rank is last each time, no rank is to
blame.
"""

from __future__ import annotations

import enum
import statistics
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dbg_client.slow.collective_timings import LEAST, CollectiveTiming, GroupMeetings

LEAST_DELAY = 0.001
"""Minimum seconds between the typical and the last rank for a collective to count as delayed."""

LEAST_SHARE = 0.02
"""Minimum fraction of the time that late ranks must cost the job; else they are not reported."""

LEAST_TIMES = 3
"""Minimum number of times that a late rank arrives last. Fewer may be chance."""

SAME_SHARE = 0.5
"""A rank counts as late if its total lateness is at least this fraction of the largest total lateness."""

FEW_SHARE = 2
"""At most one in FEW_SHARE ranks can be late, such as all ranks of one of two hosts. Else the others are early."""

CAPTURED = 0.5
"""Minimum fraction of the total delay that late ranks must cause, regardless of their number."""

BEYOND_CHANCE = 1.5
"""Late ranks must cause at least this many times the delay that their fraction of the group's ranks would suggest."""

LONG_SHARE = 0.25
"""Minimum length of a long delay, as a fraction of the weighted median delay.

Delays above that median make up half of the lost time.
"""

SURE = 0.9
"""If a set of ranks causes at least this fraction of the total delay, these ranks always count as late."""


class Lateness(str, enum.Enum):
    """Result of comparing the arrivals of a group."""

    LATE = "late"
    """The same ranks arrive last."""
    UNEVEN = "uneven"
    """Time is lost to waiting, but the last rank changes each time."""
    EVEN = "even"
    """No rank is late."""
    UNKNOWN = "unknown"
    """There are too few collectives, or the clocks can't be compared precisely enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLateness:
    """Lateness in one group. Late ``ranks`` arrived last ``times`` times, with a median delay of ``by`` seconds.

    ``lost`` is the fraction of the time that would be saved if the late ranks arrived with the others. If no particular
    rank is late, it is the fraction that would be saved if no rank had to wait.
    """

    of: GroupMeetings
    kind: Lateness
    ranks: tuple[int, ...] = ()
    times: int = 0
    by: float = 0.0
    lost: float = 0.0
    delayed: Sequence[CollectiveTiming] = ()
    """Meetings that one of the late ranks delays."""

    @property
    def count(self) -> int:
        """Number of collectives that were compared."""
        return len(self.of.meetings)

    @property
    def call(self) -> str:
        """Name of the delayed collectives, or of all collectives; ``collectives`` if there are several names."""
        names = Counter(meeting.call for meeting in (self.delayed or self.of.meetings))
        name, most = names.most_common(1)[0] if names else ("", 0)
        return name if most >= SURE * sum(names.values()) else "collectives"


def judge(group: GroupMeetings) -> GroupLateness:
    """Return the lateness in the meetings of a group."""
    meetings = group.meetings
    if len(meetings) < LEAST or group.span <= 0:
        return GroupLateness(of=group, kind=Lateness.UNKNOWN)
    least = max(LEAST_DELAY, 2 * group.looseness)
    delays = [meeting for meeting in meetings if meeting.delay >= least]
    lost = sum(meeting.delay for meeting in delays) / group.seconds
    if lost < LEAST_SHARE:
        is_loose = group.looseness > LEAST_SHARE * group.seconds / len(meetings)
        return GroupLateness(of=group, kind=Lateness.UNKNOWN if is_loose else Lateness.EVEN, lost=lost)
    late = _late_ranks(delays, len(meetings[0].came))
    long = _long_ones(delays)
    mine = [meeting for meeting in long if meeting.last_rank in late]
    saved = sum(_saved(meeting, late) for meeting in mine)
    is_seldom = len(mine) < max(LEAST_TIMES, _beyond_chance(late, meetings[0]) * len(long))
    if is_seldom or saved < LEAST_SHARE * group.seconds:
        return GroupLateness(of=group, kind=Lateness.UNEVEN, lost=lost)
    return GroupLateness(
        of=group,
        kind=Lateness.LATE,
        ranks=tuple(sorted(late)),
        times=len(mine),
        by=statistics.median(meeting.delay for meeting in mine),
        lost=saved / group.seconds,
        delayed=mine,
    )


def _late_ranks(delays: Sequence[CollectiveTiming], ranks: int) -> set[int]:
    """Return the few ranks that cause most of the delays; empty if the late rank changes each time."""
    total: defaultdict[int, float] = defaultdict(float)
    for meeting in delays:
        for number, came in meeting.came.items():
            if came - meeting.typical >= meeting.delay / 2:
                total[number] += came - meeting.typical
    most = max(total.values(), default=0.0)
    late = {number for number, seconds in total.items() if seconds >= SAME_SHARE * most}
    if not late or len(late) > max(1, ranks // FEW_SHARE):
        return set()
    everything = sum(meeting.delay for meeting in delays)
    captured = sum(meeting.delay for meeting in delays if meeting.last_rank in late)
    return late if captured >= _beyond_chance(late, delays[0]) * everything else set()


def _beyond_chance(late: set[int], meeting: CollectiveTiming) -> float:
    """Return the minimum fraction of a group's delays that late ranks must cause."""
    return min(SURE, max(CAPTURED, BEYOND_CHANCE * len(late) / len(meeting.came)))


def _long_ones(delays: Sequence[CollectiveTiming]) -> list[CollectiveTiming]:
    """Return the meetings with long delays, which make up most of the lost time; see LONG_SHARE."""
    lengths = sorted((meeting.delay for meeting in delays), reverse=True)
    middle, rest = 0.0, sum(lengths) / 2
    for length in lengths:
        middle, rest = length, rest - length
        if rest <= 0:
            break
    return [meeting for meeting in delays if meeting.delay >= LONG_SHARE * middle]


def _saved(meeting: CollectiveTiming, late: set[int]) -> float:
    """Return the seconds that the job waits only for late ranks, because all other ranks have arrived."""
    others = max((at for number, at in meeting.came.items() if number not in late), default=meeting.last)
    return max(0.0, meeting.last - others)


WAITED = 0.5
"""An earlier wait in another group explains a rank's lateness if the wait is at least this fraction of the lateness."""

MOSTLY = 0.5
"""If more than this fraction of a group's delays follow waits for one rank in other groups, that rank is blamed."""


def held_up_by(one: GroupLateness, others: Sequence[GroupLateness]) -> int | None:
    """Return the rank that has delayed a group's late ranks before, in collectives of other groups, or None."""
    found: Counter[int] = Counter()
    for number in one.ranks:
        earlier = sorted(_waits(number, one, others))
        for meeting in one.delayed:
            came = meeting.came[number]
            at = bisect_left(earlier, (came,)) - 1
            if at >= 0 and earlier[at][1] >= WAITED * (came - meeting.typical):
                found[earlier[at][2]] += 1
    culprit, times = found.most_common(1)[0] if found else (None, 0)
    return culprit if times > MOSTLY * len(one.delayed) * len(one.ranks) else None


def _waits(number: int, one: GroupLateness, others: Sequence[GroupLateness]) -> Iterator[tuple[float, float, int]]:
    """Yield the waits of the rank ``number`` in the collectives of other groups than ``one``.

    For each wait: its end, its duration, and the rank that arrived last.
    """
    for other in others:
        # The ranks of all meetings of a group are the same.
        meetings = other.of.meetings
        if other is not one and not other.of.is_enqueued and meetings and number in meetings[0].came:
            for meeting in meetings:
                yield meeting.last, meeting.last - meeting.came[number], meeting.last_rank
