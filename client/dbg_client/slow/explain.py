"""Verdicts on a slow run from the samples of its ranks, as facts. Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from dbg_client.slow.collective_timings import MICROSECONDS, SampledRun, meetings_of
from dbg_client.slow.evidence import LateRankLocation, Shortage, shortages_of, whereabouts
from dbg_client.slow.lateness import GroupLateness, Lateness, held_up_by, judge
from dbg_client.why.verdict import CULPRIT_STATUS, UNKNOWN_STATUS, Certainty
from dbg_wire.records.ranks import RankState

MAX_RANKS = 3
"""Maximum number of late ranks whose places are reported. Ranks of one host are usually late for the same reason."""

PAUSES = 3
"""A job counts as blocked if it has no new collective for this many usual intervals between collectives."""

NOBODY_STATUS = 0
"""Exit status if no rank is late."""


class Doubt(enum.Enum):
    """Reason why the late ranks are unknown."""

    HALTED = "halted"
    """Ranks are stopped or held by a debugger."""
    NO_SAMPLES = "no samples"
    MAY_HANG = "may hang"
    """No rank has reached a collective: the job is blocked, or its steps are long."""
    CLOCKS = "clocks"
    """The clocks of the hosts can't be compared precisely enough."""
    FEW = "few"
    """Too few collectives were seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRank:
    """Late rank, its places while other ranks wait, and the resources it is short of."""

    number: int
    where: LateRankLocation | None
    shortages: tuple[Shortage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowVerdict:
    """Ranks that slow down one job, or the statement that none does.

    The verdict is only LIKELY if it is based on the times when hosts enqueue calls. ``ranks`` are late in ``groups``,
    the worst group first. ``doubt`` is the reason why a verdict is unknown.
    """

    kind: Lateness
    certainty: Certainty
    ranks: tuple[int, ...] = ()
    groups: tuple[GroupLateness, ...] = ()
    late: tuple[LateRank, ...] = ()
    doubt: Doubt | None = None

    @property
    def worst(self) -> GroupLateness | None:
        """Group of the verdict; None if the late ranks are unknown."""
        return self.groups[0] if self.groups and self.doubt is None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFindings:
    """Verdicts on one run, the worst first, and the lateness in each of its groups."""

    run: SampledRun
    verdicts: tuple[SlowVerdict, ...]
    groups: tuple[GroupLateness, ...]


def find(run: SampledRun) -> RunFindings:
    """Return the findings from the samples of one run."""
    groups = tuple(sorted((judge(group) for group in meetings_of(run)), key=lambda one: -one.lost))
    return RunFindings(run=run, verdicts=tuple(_verdicts(run, groups)), groups=groups)


def exit_status(verdicts: Iterable[SlowVerdict]) -> int:
    """Return 1 if a rank is late, 6 if all verdicts are unknown, else 0."""
    kinds = {verdict.kind for verdict in verdicts}
    if Lateness.LATE in kinds:
        return CULPRIT_STATUS
    return NOBODY_STATUS if kinds & {Lateness.EVEN, Lateness.UNEVEN} else UNKNOWN_STATUS


def halted_ranks(run: SampledRun) -> list[int]:
    """Return the ranks that are stopped or held by a debugger."""
    halted = (RankState.STOPPED, RankState.HELD)
    return [number for number, one in run.roster.items() if one.rank.state in halted]


def _verdicts(run: SampledRun, groups: tuple[GroupLateness, ...]) -> list[SlowVerdict]:
    for doubt, applies in (
        (Doubt.HALTED, bool(halted_ranks(run))),
        (Doubt.NO_SAMPLES, not run.samples),
        (Doubt.MAY_HANG, _may_hang(run, groups)),
    ):
        if applies:
            return [_unknown(doubt, groups)]
    if late := _late(run, groups):
        return late
    for kind in (Lateness.UNEVEN, Lateness.EVEN):
        samples = tuple(one for one in groups if one.kind is kind)
        if samples:
            return [SlowVerdict(kind=kind, certainty=Certainty.SURE, groups=samples)]
    loose = tuple(one for one in groups if one.count and one.of.looseness > 0)
    return [_unknown(Doubt.CLOCKS, loose) if loose else _unknown(Doubt.FEW, groups)]


def _unknown(doubt: Doubt, groups: tuple[GroupLateness, ...]) -> SlowVerdict:
    return SlowVerdict(kind=Lateness.UNKNOWN, certainty=Certainty.LIKELY, groups=groups, doubt=doubt)


def _late(run: SampledRun, groups: tuple[GroupLateness, ...]) -> list[SlowVerdict]:
    """Return a verdict for each set of late ranks that no other rank has delayed."""
    late = [one for one in groups if one.kind is Lateness.LATE]
    roots = [one for one in late if held_up_by(one, groups) is None] or late[:1]
    found: dict[tuple[int, ...], list[GroupLateness]] = {}
    for one in roots:
        found.setdefault(one.ranks, []).append(one)
    return [
        SlowVerdict(
            kind=Lateness.LATE,
            certainty=Certainty.LIKELY if own[0].of.is_enqueued else Certainty.SURE,
            ranks=ranks,
            groups=tuple(own),
            late=_late_ranks(run, ranks, own[0]),
        )
        for ranks, own in found.items()
    ]


def _late_ranks(run: SampledRun, ranks: tuple[int, ...], group: GroupLateness) -> tuple[LateRank, ...]:
    samples = {number: sampled.sample for number, sampled in run.samples.items()}
    return tuple(
        LateRank(
            number=number,
            where=whereabouts(run.samples[number], number, run.shift(number), group),
            shortages=shortages_of(number, samples),
        )
        for number in ranks[:MAX_RANKS]
        if number in run.samples
    )


def _may_hang(run: SampledRun, groups: tuple[GroupLateness, ...]) -> bool:
    """Return True if the latest collective was before the sampling, and more than PAUSES usual intervals ago."""
    last = ends = -float("inf")
    pauses = [one.of.span / (one.count - 1) for one in groups if one.count > 1]
    for arrivals in run.arrivals.values():
        for number, row in arrivals.items():
            last = max(last, (row.start + row.came[-1]) / MICROSECONDS - run.shift(number))
            ends = max(ends, run.samples[number].sample.clock / MICROSECONDS - run.shift(number))
    seconds = max((sampled.sample.seconds for sampled in run.samples.values()), default=0.0)
    return last > -float("inf") and ends - last > max(seconds, PAUSES * min(pauses, default=0.0))
