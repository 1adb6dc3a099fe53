"""Collectives as meetings: when each rank of a group came to the same one, on one clock. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dbg_client.core.process_groups import ProcessGroup
from dbg_client.hang.slow.samples import MICROSECONDS, SampledRun, is_synchronous, key_of
from dbg_wire.records.samples import GroupArrivals

LEAST = 3
"""Collectives of a group that are compared at least: the first one after a pause tells nothing."""

ENOUGH = 10
"""Collectives within the sampling from which on earlier ones don't count."""

MOST_EARLIER = 50
"""Collectives that count if there are fewer within the sampling."""


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """One collective of a group: its call, its number, and when each rank came, in seconds."""

    call: str
    sequence: int
    came: Mapping[int, float]

    @cached_property
    def last_rank(self) -> int:
        """Return the rank that came last."""
        return max(self.came, key=self.came.__getitem__)

    @property
    def last(self) -> float:
        """Return when the last rank came."""
        return self.came[self.last_rank]

    @cached_property
    def typical(self) -> float:
        """Return when the typical rank came: of an even number the earlier one of the two in the middle."""
        return sorted(self.came.values())[(len(self.came) - 1) // 2]

    @property
    def delay(self) -> float:
        """Return the seconds between the typical rank and the last."""
        return self.last - self.typical


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMeetings:
    """The meetings of one group in the order of their numbers; ``unheard`` are members that have told nothing.

    ``looseness`` is by how many seconds the times of two ranks may be compared wrongly. With ``by_device`` the times
    are those of a device, and with ``is_enqueued`` those at which a host has called what its device does later.
    """

    group: ProcessGroup
    meetings: Sequence[Meeting]
    unheard: tuple[int, ...]
    looseness: float
    by_device: bool = False
    is_enqueued: bool = False

    @property
    def span(self) -> float:
        """Return the seconds from the first meeting to the last."""
        return self.meetings[-1].last - self.meetings[0].last if len(self.meetings) > 1 else 0.0

    @property
    def seconds(self) -> float:
        """Return the seconds that all meetings take, each with what passes before it."""
        return self.span * len(self.meetings) / max(1, len(self.meetings) - 1)


def meetings_of(run: SampledRun) -> list[GroupMeetings]:
    """Return the meetings of each group with several members that have told of them."""
    found = []
    for group in run.groups:
        arrivals = run.arrivals.get(key_of(group), {})
        if len(arrivals) > 1:
            found.append(_of_group(run, group, arrivals))
    return found


def _of_group(run: SampledRun, group: ProcessGroup, arrivals: Mapping[int, GroupArrivals]) -> GroupMeetings:
    by_device = all(row.took and min(row.took) >= 0 for row in arrivals.values())
    columns = {number: _column(row, run.shift(number), by_device=by_device) for number, row in arrivals.items()}
    first = next(iter(columns))
    common = set(columns[first])
    for column in columns.values():
        common &= column.keys()
    calls = dict(zip(arrivals[first].sequences, arrivals[first].which, strict=True))
    meetings = []
    for sequence in sorted(common):
        call = arrivals[first].calls[calls[sequence]]
        if is_synchronous(call):
            told = {number: column[sequence] for number, column in columns.items()}
            meetings.append(Meeting(call=call, sequence=sequence, came=_on_device(told) if by_device else _host(told)))
    begin = min(run.told[number].sample.begin / MICROSECONDS - run.shift(number) for number in arrivals)
    backend = next(iter(group.members.values())).seen.backend
    return GroupMeetings(
        group=group,
        meetings=_latest(meetings, begin),
        unheard=tuple(number for number in group.numbers if number not in arrivals),
        looseness=0.0 if by_device else run.looseness(tuple(arrivals)),
        by_device=by_device,
        is_enqueued=not by_device and backend == "nccl",
    )


def _column(row: GroupArrivals, shift: float, *, by_device: bool) -> dict[int, tuple[float, float]]:
    """Return when a rank came to each collective and for how long its device was in it, in seconds."""
    return {
        sequence: (
            (row.begin + row.came[index]) / MICROSECONDS - shift,
            row.took[index] / MICROSECONDS if by_device else 0.0,
        )
        for index, sequence in enumerate(row.sequences)
    }


def _host(told: Mapping[int, tuple[float, float]]) -> dict[int, float]:
    return {number: came for number, (came, _) in told.items()}


def _on_device(told: Mapping[int, tuple[float, float]]) -> dict[int, float]:
    """Return when devices came: all leave at the same time, so the one that was in it for the shortest time came last.

    No clock of a host is needed for that.
    """
    longest = max(took for _, took in told.values())
    begin = min(came for came, _ in told.values())
    return {number: begin + longest - took for number, (_, took) in told.items()}


def _latest(meetings: list[Meeting], begin: float) -> list[Meeting]:
    """Return the meetings since the sampling began, or the last ones if these are few."""
    within = [meeting for meeting in meetings if meeting.last >= begin]
    return within if len(within) >= ENOUGH else meetings[-MOST_EARLIER:]
