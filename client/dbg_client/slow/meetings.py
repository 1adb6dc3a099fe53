"""What ranks tell of a sampling: collectives as meetings, to which each rank came at a time of one clock. Pure.

Round trips bound the clock of a host, whatever the network does: a rank answers a question after it was asked and
before the answer came, by the terminal's own clock (the bound of Cristian's algorithm).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from dbg_client.core.choose import Run
from dbg_client.why.process_groups import ProcessGroup, Roster, process_groups, read_evidence, rosters
from dbg_wire.libraries import SYNCHRONOUS
from dbg_wire.messages import RankAnswer
from dbg_wire.records.ranks import RankInfo
from dbg_wire.records.samples import GroupArrivals, Sampled, sampled_in

MICROSECONDS = 1_000_000


class RoundTrip(NamedTuple):
    """A question for a host's clock: asked and answered by the terminal's clock, in microseconds."""

    asked: int
    answered: int
    clock: int


@dataclass(frozen=True, slots=True)
class Shift:
    """By how many microseconds a host's clock is ahead of the reference: from ``low`` to ``high``."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """Return what is taken; 0 if one side is not bounded."""
        return (self.low + self.high) / 2 if math.isfinite(self.high - self.low) else 0.0

    @property
    def looseness(self) -> float:
        """Return by how much the middle may be wrong, infinite if nothing is known."""
        return (self.high - self.low) / 2 if self.low <= self.high else math.inf


UNKNOWN = Shift(-math.inf, math.inf)


def align(hosts: Iterable[str], trips: Mapping[str, Sequence[RoundTrip]]) -> dict[str, Shift]:
    """Return the shift of each host against the terminal's clock.

    Bounds that contradict each other, as of a clock that was set meanwhile, are as good as none.
    """
    names = set(hosts)
    if len(names) < 2:
        # Ranks of one host read one clock, and need no other.
        return dict.fromkeys(names, Shift(0.0, 0.0))
    return {host: _bounded(trips.get(host, ())) for host in names}


def _bounded(trips: Sequence[RoundTrip]) -> Shift:
    low = max((trip.clock - trip.answered for trip in trips), default=-math.inf)
    high = min((trip.clock - trip.asked for trip in trips), default=math.inf)
    return Shift(low, high) if low <= high else UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRun:
    """The ranks of one run that have told something; ``trips`` are questions for the clocks of hosts.

    ``arrivals`` are those of each group, by the group's library and name, and then by rank.
    """

    run: Run
    roster: Roster
    told: Mapping[int, Sampled]
    groups: tuple[ProcessGroup, ...]
    arrivals: Mapping[str, Mapping[int, GroupArrivals]]
    shifts: Mapping[str, Shift]

    def shift(self, number: int) -> float:
        """Return by how many seconds the clock of a rank is ahead."""
        return self.shifts[self.roster[number].rank.host].middle / MICROSECONDS

    def looseness(self, numbers: Sequence[int]) -> float:
        """Return by how many seconds times of these ranks may be compared wrongly: 0 for ranks of one host."""
        hosts = {self.roster[number].rank.host for number in numbers if number in self.roster}
        return sum(sorted(self.shifts[host].looseness for host in hosts)[-2:]) / MICROSECONDS if len(hosts) > 1 else 0.0


def sampled_runs(
    ranks: Sequence[RankInfo],
    answers: Sequence[RankAnswer],
    trips: Mapping[str, Sequence[RoundTrip]],
) -> list[SampledRun]:
    """Return what the ranks of each run have told; ``trips`` are questions for the clocks of hosts."""
    return [_sampled_run(run, roster, trips) for run, roster in rosters(read_evidence(ranks, answers)).items()]


def _sampled_run(run: Run, roster: Roster, trips: Mapping[str, Sequence[RoundTrip]]) -> SampledRun:
    read = ((number, sampled_in(one.answer.rows)) for number, one in roster.items())
    told = {number: sampled for number, sampled in read if sampled is not None}
    arrivals: defaultdict[str, dict[int, GroupArrivals]] = defaultdict(dict)
    groups = tuple(process_groups(run, roster))
    for group in groups:
        for number in group.numbers:
            for row in told[number].arrivals if number in told else ():
                if row.group == group.name and row.came:
                    arrivals[key_of(group)][number] = row
    shifts = align((roster[number].rank.host for number in told), trips)
    return SampledRun(run=run, roster=roster, told=told, groups=groups, arrivals=arrivals, shifts=shifts)


def key_of(group: ProcessGroup) -> str:
    """Return what no other group of the run has."""
    return f"{group.library}/{group.name}/{group.label}"


LEAST = 3
"""Collectives of a group that are compared at least: the first one after a pause tells nothing."""

ENOUGH = 10
"""Collectives within the sampling from which on earlier ones don't count."""

MOST_EARLIER = 50
"""Collectives that count if there are fewer within the sampling."""


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """One collective of a group: its call, and when each rank came, in seconds."""

    call: str
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

    ``looseness`` is by how many seconds the times of two ranks may be compared wrongly. With ``is_enqueued``
    the times are those at which a host has called what its device does later.
    """

    group: ProcessGroup
    meetings: Sequence[Meeting]
    unheard: tuple[int, ...]
    looseness: float
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
        if call in SYNCHRONOUS:
            told = {number: column[sequence] for number, column in columns.items()}
            meetings.append(Meeting(call=call, came=_on_device(told) if by_device else _host(told)))
    begin = min(run.told[number].sample.begin / MICROSECONDS - run.shift(number) for number in arrivals)
    backend = next(iter(group.members.values())).seen.backend
    return GroupMeetings(
        group=group,
        meetings=_latest(meetings, begin),
        unheard=tuple(number for number in group.numbers if number not in arrivals),
        looseness=0.0 if by_device else run.looseness(tuple(arrivals)),
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
