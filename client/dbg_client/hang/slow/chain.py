"""Whether a late rank is late because it was itself held up before, in a collective of another group. Pure.

In a job with several kinds of parallelism one slow rank makes others late, one group after the other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

from dbg_client.hang.slow.lateness import GroupLateness

WAITED = 0.5
"""The part of a rank's lateness for which it was held up before to be late by that."""

MOSTLY = 0.5
"""The part of the collectives a rank delays that it was held up before, to say so."""


def held_up_by(one: GroupLateness, others: Sequence[GroupLateness]) -> tuple[int, GroupLateness] | None:
    """Return the rank for which the late ranks of a group have waited before, and in which group; None if for none."""
    found: Counter[tuple[int, int]] = Counter()
    for number in one.ranks:
        earlier = sorted(_waits(number, one, others))
        ends = [end for end, *_ in earlier]
        for meeting in one.delayed:
            came = meeting.came[number]
            at = bisect_left(ends, came) - 1
            if at >= 0 and earlier[at][1] >= WAITED * (came - meeting.typical):
                found[earlier[at][2], earlier[at][3]] += 1
    if not found:
        return None
    (culprit, group), times = found.most_common(1)[0]
    return (culprit, others[group]) if times > MOSTLY * len(one.delayed) * len(one.ranks) else None


def _waits(number: int, one: GroupLateness, others: Sequence[GroupLateness]) -> Iterator[tuple[float, float, int, int]]:
    """Yield until when and for how long a rank has waited in other groups, for which rank, and in which of them."""
    for index, other in enumerate(others):
        meetings = other.of.meetings
        # The ranks of all meetings of a group are the same.
        if other is not one and not other.of.is_enqueued and meetings and number in meetings[0].came:
            for meeting in meetings:
                yield meeting.last, meeting.last - meeting.came[number], meeting.last_rank, index
