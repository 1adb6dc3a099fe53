"""Results of sampling ranks: the arrival times of the ranks at each collective, on one common clock. Pure.

A host's clock is ahead of the terminal's clock by an unknown time. Each query gives a minimum and a maximum of this
time, because the host reads its clock after the terminal sends the question and before the answer arrives (the bound of
Cristian's algorithm). Both limits are true however slow the network is.
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
    """Query of a host's clock; ``asked`` and ``answered`` are by the terminal's clock, all in microseconds."""

    asked: int
    answered: int
    clock: int


@dataclass(frozen=True, slots=True)
class Shift:
    """Number of microseconds that a host's clock is ahead of the reference: between ``low`` and ``high``."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """Estimate of the shift, in microseconds; 0 if ``low`` or ``high`` is infinite."""
        return (self.low + self.high) / 2 if math.isfinite(self.high - self.low) else 0.0

    @property
    def looseness(self) -> float:
        """Maximum error of the estimate, in microseconds; infinite if nothing is known."""
        return (self.high - self.low) / 2 if self.low <= self.high else math.inf


UNKNOWN = Shift(-math.inf, math.inf)


def align(hosts: Iterable[str], trips: Mapping[str, Sequence[RoundTrip]]) -> dict[str, Shift]:
    """Return the shift of each host against the terminal's clock.

    Bounds that contradict each other, as after a clock was set, are ignored.
    """
    names = set(hosts)
    if len(names) < 2:
        # Ranks of one host share a clock.
        return dict.fromkeys(names, Shift(0.0, 0.0))
    return {host: _bounded(trips.get(host, ())) for host in names}


def _bounded(trips: Sequence[RoundTrip]) -> Shift:
    low = max((trip.clock - trip.answered for trip in trips), default=-math.inf)
    high = min((trip.clock - trip.asked for trip in trips), default=math.inf)
    return Shift(low, high) if low <= high else UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRun:
    """Samples of the ranks of one run, and the clock shift of each host.

    ``arrivals`` are the arrivals by the key of the group (see :func:`key_of`), and then by rank.
    """

    run: Run
    roster: Roster
    samples: Mapping[int, Sampled]
    groups: tuple[ProcessGroup, ...]
    arrivals: Mapping[str, Mapping[int, GroupArrivals]]
    shifts: Mapping[str, Shift]

    def shift(self, number: int) -> float:
        """Return the number of seconds that the clock of a rank is ahead."""
        return self.shifts[self.roster[number].rank.host].middle / MICROSECONDS

    def looseness(self, numbers: Sequence[int]) -> float:
        """Return the maximum error in seconds when times of these ranks are compared; 0 for ranks of one host."""
        hosts = {self.roster[number].rank.host for number in numbers if number in self.roster}
        return sum(sorted(self.shifts[host].looseness for host in hosts)[-2:]) / MICROSECONDS if len(hosts) > 1 else 0.0


def sampled_runs(
    ranks: Sequence[RankInfo],
    answers: Sequence[RankAnswer],
    trips: Mapping[str, Sequence[RoundTrip]],
) -> list[SampledRun]:
    """Return the samples of each run; ``trips`` are queries of the clocks of hosts."""
    return [_sampled_run(run, roster, trips) for run, roster in rosters(read_evidence(ranks, answers)).items()]


def _sampled_run(run: Run, roster: Roster, trips: Mapping[str, Sequence[RoundTrip]]) -> SampledRun:
    read = ((number, sampled_in(one.answer.rows)) for number, one in roster.items())
    samples = {number: sampled for number, sampled in read if sampled is not None}
    arrivals: defaultdict[str, dict[int, GroupArrivals]] = defaultdict(dict)
    groups = tuple(process_groups(run, roster))
    for group in groups:
        for number in group.numbers:
            for row in samples[number].arrivals if number in samples else ():
                if row.group == group.name and row.came:
                    arrivals[key_of(group)][number] = row
    shifts = align((roster[number].rank.host for number in samples), trips)
    return SampledRun(run=run, roster=roster, samples=samples, groups=groups, arrivals=arrivals, shifts=shifts)


def key_of(group: ProcessGroup) -> str:
    """Return a key that is unique among the groups of a run."""
    return f"{group.library}/{group.name}/{group.label}"


LEAST = 3
"""Minimum number of collectives of a group to compare. One or two may just be the first ones after a pause."""

ENOUGH = 10
"""Minimum number of collectives during the sampling. With fewer, collectives from before the sampling are used too."""

MOST_EARLIER = 50
"""Maximum number of collectives used, including earlier ones, if the sampling has seen fewer than ENOUGH."""


@dataclass(frozen=True, kw_only=True)
class CollectiveTiming:
    """One collective of a group: its call, and the arrival time of each rank, in seconds."""

    call: str
    came: Mapping[int, float]

    @cached_property
    def last_rank(self) -> int:
        """Rank that arrived last."""
        return max(self.came, key=self.came.__getitem__)

    @property
    def last(self) -> float:
        """Arrival time of the last rank."""
        return self.came[self.last_rank]

    @cached_property
    def typical(self) -> float:
        """Arrival time of the typical rank: the lower median."""
        return sorted(self.came.values())[(len(self.came) - 1) // 2]

    @property
    def delay(self) -> float:
        """Seconds between the typical rank and the last one."""
        return self.last - self.typical


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMeetings:
    """Meetings of one group; ``unheard`` are members that have reported nothing.

    A meeting is one collective with the arrival times of the members that report. Meetings are ordered by number.

    ``looseness`` is the maximum error in seconds when times of two ranks are compared. With ``is_enqueued``, arrival
    times are the times when a host enqueued the call, which its device runs later.
    """

    group: ProcessGroup
    meetings: Sequence[CollectiveTiming]
    unheard: tuple[int, ...]
    looseness: float
    is_enqueued: bool = False

    @property
    def span(self) -> float:
        """Seconds from the first meeting to the last."""
        return self.meetings[-1].last - self.meetings[0].last if len(self.meetings) > 1 else 0.0

    @property
    def seconds(self) -> float:
        """Seconds of all meetings.

        The ``span`` of n meetings contains only n - 1 intervals, because the time before the first meeting is unknown.
        An average interval is added for this time, so that each meeting counts with one interval.
        """
        return self.span * len(self.meetings) / max(1, len(self.meetings) - 1)


def meetings_of(run: SampledRun) -> list[GroupMeetings]:
    """Return the meetings of each group with reports from several members."""
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
            samples = {number: column[sequence] for number, column in columns.items()}
            came = _on_device(samples) if by_device else {number: came for number, (came, _) in samples.items()}
            meetings.append(CollectiveTiming(call=call, came=came))
    start = min(run.samples[number].sample.start / MICROSECONDS - run.shift(number) for number in arrivals)
    backend = next(iter(group.members.values())).seen.backend
    return GroupMeetings(
        group=group,
        meetings=_latest(meetings, start),
        unheard=tuple(number for number in group.numbers if number not in arrivals),
        looseness=0.0 if by_device else run.looseness(tuple(arrivals)),
        is_enqueued=not by_device and backend == "nccl",
    )


def _column(row: GroupArrivals, shift: float, *, by_device: bool) -> dict[int, tuple[float, float]]:
    """Return for each collective when the rank arrived and how long its device took for the collective, in seconds."""
    return {
        sequence: (
            (row.start + row.came[index]) / MICROSECONDS - shift,
            row.took[index] / MICROSECONDS if by_device else 0.0,
        )
        for index, sequence in enumerate(row.sequences)
    }


def _on_device(samples: Mapping[int, tuple[float, float]]) -> dict[int, float]:
    """Return the arrival times of devices, without the clocks of their hosts.

    All devices leave a collective at the same time, so the one with the shortest duration arrived last.
    """
    longest = max(took for _, took in samples.values())
    start = min(came for came, _ in samples.values())
    return {number: start + longest - took for number, (_, took) in samples.items()}


def _latest(meetings: list[CollectiveTiming], start: float) -> list[CollectiveTiming]:
    """Return the meetings since the start of the sampling, or if these are few, the latest MOST_EARLIER of all."""
    within = [meeting for meeting in meetings if meeting.last >= start]
    return within if len(within) >= ENOUGH else meetings[-MOST_EARLIER:]
