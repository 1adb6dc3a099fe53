"""Which ranks of a group come last to its collectives, how often, by how much, and what that costs. Pure.

A rank is late by the time between the typical rank and itself. A job loses what passes between the last of the others
and the late ones. Ranks that come last in turns are nobody's fault.
"""

from __future__ import annotations

import enum
import statistics
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dbg_client.slow.meetings import LEAST, GroupMeetings, Meeting

LEAST_DELAY = 0.001
"""Seconds between the typical and the last rank from which on a collective counts as delayed."""

LEAST_SHARE = 0.02
"""The part of the time from which on what is lost is worth a word."""

LEAST_TIMES = 3
"""Collectives that a rank comes last in at least; fewer are chance."""

SAME_SHARE = 0.5
"""The part of the most late rank's lateness from which on another rank is late as well."""

FEW_SHARE = 2
"""At most one of so many ranks is late, as those of one host of two; if more are, the others are early."""

CAPTURED = 0.5
"""The part of all delays that late ranks have to cause, however many ranks there are."""

BEYOND_CHANCE = 1.5
"""How many times the part is at least that they would cause if all ranks came last by chance."""

LONG_SHARE = 0.25
"""The part of a long delay from which on another one is long as well; half of the lost time is in delays as long."""

SURE = 0.9
"""The part of all delays that is enough in any case."""


class Lateness(str, enum.Enum):
    """What the arrivals of a group tell."""

    LATE = "late"
    """The same ranks come last."""
    UNEVEN = "uneven"
    """Time is lost to waiting, but other ranks come last each time."""
    EVEN = "even"
    """Nobody is late."""
    UNKNOWN = "unknown"
    """There is too little to compare, or the clocks can't be compared closely enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLateness:
    """What one group tells. ``ranks`` are late: one of them came last ``times`` times, and by ``by`` seconds then.

    ``lost`` is the part of the time that would be saved if these came with the others, or if nobody had to wait, where
    ranks are late in turns.
    """

    of: GroupMeetings
    kind: Lateness
    ranks: tuple[int, ...] = ()
    times: int = 0
    by: float = 0.0
    lost: float = 0.0
    delayed: Sequence[Meeting] = ()
    """The meetings that one of the late ranks delays."""

    @property
    def count(self) -> int:
        """Return how many collectives were compared."""
        return len(self.of.meetings)

    @property
    def call(self) -> str:
        """Return the name of the collectives that the late ranks delay, or of all; ``collectives`` for several."""
        names = Counter(meeting.call for meeting in (self.delayed or self.of.meetings))
        name, most = names.most_common(1)[0] if names else ("", 0)
        return name if most >= SURE * sum(names.values()) else "collectives"


def judge(group: GroupMeetings) -> GroupLateness:
    """Return what the meetings of a group tell."""
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


def _late_ranks(delays: Sequence[Meeting], ranks: int) -> set[int]:
    """Return the few ranks that cause most of the delays; none if ranks are late in turns."""
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


def _beyond_chance(late: set[int], meeting: Meeting) -> float:
    """Return the part that late ranks have to have in the delays of a group."""
    return min(SURE, max(CAPTURED, BEYOND_CHANCE * len(late) / len(meeting.came)))


def _long_ones(delays: Sequence[Meeting]) -> list[Meeting]:
    """Return the delays that make up most of the lost time: not each small one, nor all beside a single huge one."""
    lengths = sorted((meeting.delay for meeting in delays), reverse=True)
    middle, rest = 0.0, sum(lengths) / 2
    for length in lengths:
        middle, rest = length, rest - length
        if rest <= 0:
            break
    return [meeting for meeting in delays if meeting.delay >= LONG_SHARE * middle]


def _saved(meeting: Meeting, late: set[int]) -> float:
    """Return the seconds that pass between the last of the others and the late ranks."""
    others = max((at for number, at in meeting.came.items() if number not in late), default=meeting.last)
    return max(0.0, meeting.last - others)


WAITED = 0.5
"""The part of a rank's lateness for which it was held up before to be late by that."""

MOSTLY = 0.5
"""The part of the collectives a rank delays that it was held up before, to say so."""


def held_up_by(one: GroupLateness, others: Sequence[GroupLateness]) -> int | None:
    """Return the rank for which the late ranks of a group have waited before, in another group; None if for none."""
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
    """Yield until when and for how long a rank has waited in other groups, and for which rank."""
    for other in others:
        # The ranks of all meetings of a group are the same.
        meetings = other.of.meetings
        if other is not one and not other.of.is_enqueued and meetings and number in meetings[0].came:
            for meeting in meetings:
                yield meeting.last, meeting.last - meeting.came[number], meeting.last_rank
