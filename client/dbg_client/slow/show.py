"""Verdicts on a slow job as text and as JSON: sentences, and a table of the groups. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence

from dbg_client.slow.evidence import Shortage, Spot
from dbg_client.slow.explain import Doubt, LateRank, RunFindings, SlowVerdict, halted_ranks
from dbg_client.slow.lateness import GroupLateness, Lateness
from dbg_client.views.naming import clip
from dbg_client.views.table import clip as cut
from dbg_client.views.table import table
from dbg_client.views.tree import show_frame
from dbg_client.why.names import NamedRanks, agreeing
from dbg_client.why.process_groups import world_size
from dbg_client.why.show import Diagnosis, document_of, shown
from dbg_client.why.verdict import Certainty, NextStep, Purpose
from dbg_wire.errors import Remedy, printable
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.ranks import LIVE_STATES
from dbg_wire.records.samples import RankSample

MAX_ROWS = 40
"""Maximum rows of the table. The groups that cost most are first; JSON lists all of them."""

MAX_LIMITATIONS = 4
"""Maximum number of sentences on limitations of libraries."""

MAX_NAMES = 28
"""Maximum columns for the ranks of one cell."""

MAX_JOB, MAX_GROUP = 16, 24
"""Maximum columns of the names of jobs and groups, so that the figures after them are visible at 80 columns."""

HEADERS = ("JOB", "GROUP", "LAST", "TIMES", "BY", "LOST", "RANKS")

MAY_HANG = NextStep(Remedy("why"), Purpose.TELLS_HANG)

_CODES = {Lateness.LATE: "1;31", Lateness.UNEVEN: "33", Lateness.EVEN: "32", Lateness.UNKNOWN: "35"}


def show_findings(
    found: Sequence[RunFindings],
    *,
    color: bool,
    columns: int | None = None,
    word: Callable[[Remedy], str] | None = None,
) -> str:
    """Return the sentences and the table. ``columns`` is the width of the terminal; None without a terminal."""
    several = len({one.run.run for one in found}) > 1
    blocks = [
        "".join(
            shown(one, _CODES[verdict.kind] if color else None, columns, word)
            for findings in found
            for verdict, one in diagnoses(findings, several_jobs=several)
        )
    ]
    if any(one.groups for one in found):
        blocks.append(_table(found, several=several, columns=columns))
    return "\n".join(block for block in blocks if block) or "no rank has an agent that could answer\n"


def diagnoses(found: RunFindings, *, several_jobs: bool) -> Iterator[tuple[SlowVerdict, Diagnosis]]:
    """Yield each verdict on a run with its sentence, its evidence, and the next command."""
    for verdict in found.verdicts:
        yield verdict, _DiagnosisParts(found, verdict, several_jobs=several_jobs).diagnosis()


class _DiagnosisParts:
    """Text of one verdict."""

    def __init__(self, found: RunFindings, verdict: SlowVerdict, *, several_jobs: bool) -> None:
        self._run, self._verdict = found.run, verdict
        self._names = NamedRanks(found.run.run, found.run.roster, several_jobs=several_jobs)

    def diagnosis(self) -> Diagnosis:
        """Return the verdict as text."""
        verdict, worst = self._verdict, self._verdict.worst
        following = self._names.entering(verdict.ranks) if verdict.ranks else None
        if verdict.doubt is Doubt.MAY_HANG:
            following = MAY_HANG
        return Diagnosis(
            job=self._run.run[0],
            sentence=self._sentence(),
            certainty=verdict.certainty,
            ranks=verdict.ranks,
            group=worst.of.group.label if worst is not None else None,
            collective=worst.call if worst is not None else None,
            evidence=tuple(self._evidence()),
            next=following,
        )

    def _sentence(self) -> str:
        verdict = self._verdict
        if verdict.doubt is not None:
            return self._doubtful(verdict.doubt)
        one = verdict.groups[0]
        if verdict.kind is Lateness.UNEVEN:
            return (
                f"no particular rank is late: {_of(one)} cost {one.lost:.0%} of the time, "
                "because the ranks wait for a different one each time"
            )
        if verdict.kind is Lateness.EVEN:
            return (
                f"no rank is late: waiting for other ranks in {one.count} {_of(one)} costs {max(0.0, one.lost):.1%} "
                "of the time"
            )
        s = "s" * (len(verdict.ranks) == 1)
        comes = f"arrive{s}" if verdict.certainty is Certainty.SURE else f"seem{s} to arrive"
        return (
            f"{self._names.described(verdict.ranks)} {comes} last at {one.times} of {one.count} {_of(one)}, "
            f"by {duration(one.by)}; that costs {one.lost:.0%} of the time"
        )

    def _doubtful(self, doubt: Doubt) -> str:
        if doubt is Doubt.HALTED:
            halted = halted_ranks(self._run)
            stand = agreeing(halted, "is", "are")
            return f"{self._names.ranks(halted)} {stand} stopped or held by a debugger, so the job makes no progress"
        if doubt is Doubt.NO_SAMPLES:
            return "no rank has reported anything"
        if doubt is Doubt.MAY_HANG:
            seconds = statistics.median(sampled.sample.seconds for sampled in self._run.samples.values())
            return (
                f"no rank has reached a collective in these {seconds:.0f} s: the job is blocked, or its steps are long"
            )
        if doubt is Doubt.FEW:
            return "the late ranks are unknown: too few collectives were seen"
        one = self._verdict.groups[0]
        clocks = "the clock difference between its hosts is unknown"
        if math.isfinite(one.of.looseness):
            clocks = f"the clocks of its hosts can be compared to within {duration(one.of.looseness)} at best"
        return f"the late ranks of {_name(one)} are unknown: {clocks}"

    def _evidence(self) -> Iterator[str]:
        verdict = self._verdict
        for one in verdict.late:
            yield from self._about(one)
        worst = verdict.worst
        if worst is not None:
            yield from self._limits(worst)
        # Limitations of libraries: one line for all ranks with the same limitation.
        limits = {one.limitation for each in self._run.samples.values() for one in each.sources if one.limitation}
        yield from (printable(limitation, 300) for limitation in sorted(limits)[:MAX_LIMITATIONS])
        known = worst.of.unheard if worst is not None else ()
        silent = [
            number
            for number, evidence in self._run.roster.items()
            if number not in self._run.samples and number not in known and evidence.rank.state in LIVE_STATES
        ]
        if silent:
            yield f"{self._names.ranks(silent)} did not answer"

    def _about(self, one: LateRank) -> Iterator[str]:
        """Yield lines about the places of a late rank, and the resources it is short of."""
        if one.where is not None:
            (first, count), *more = one.where.spots
            others = "".join(f", {_spot(spot)} in {times}" for spot, times in more)
            yield f"meanwhile, rank {one.number} is at {_spot(first)} in {count} of {one.where.samples} samples{others}"
        for limitation in one.shortages:
            yield f"rank {one.number} {_lack(limitation, self._run.samples[one.number].sample)}"

    def _limits(self, one: GroupLateness) -> Iterator[str]:
        """Yield lines about the limits of the figures."""
        if one.of.is_enqueued:
            yield (
                "these are the times of calls on the hosts; to record the times of the devices, set "
                "TORCH_NCCL_ENABLE_TIMING=1 in the job's environment"
            )
        if one.of.looseness:
            yield f"times of different hosts are accurate to within {duration(one.of.looseness)}"
        if one.of.unheard:
            yield f"{self._names.ranks(one.of.unheard)} of {_name(one)} reported nothing and may be later"


def _spot(spot: Spot) -> str:
    if spot.own is None:
        return "other places"
    return f"{show_frame(spot.own)}, in the data loader" if spot.is_loading else show_frame(spot.own)


def _lack(limitation: Shortage, mine: RankSample) -> str:
    used = mine.processors
    if limitation is Shortage.QUOTA:
        cores = f" ({used.quota:.2g} cores)" if used.quota is not None else ""
        return f"is throttled by its cgroup: the quota{cores} was used up in {used.throttled} of {used.periods} periods"
    return f"waits for a free core in {(used.queued or 0.0) / mine.seconds:.0%} of the time"


def _of(one: GroupLateness) -> str:
    """Return ``all_reduce of dp_0``."""
    return f"{printable(one.call, 60)} of {_name(one)}"


def _name(one: GroupLateness) -> str:
    return printable(one.of.group.label or "the job", 100)


def duration(seconds: float) -> str:
    """Return seconds as ``310 ms``, ``2.1 ms`` or ``1.9 s``."""
    number, unit = (seconds, "s") if seconds >= 1 else (1000 * seconds, "ms")
    return f"{number:.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"


def _table(found: Sequence[RunFindings], *, several: bool, columns: int | None) -> str:
    rows = [_row(one, group, several=several) for one in found for group in one.groups]
    lines = table(HEADERS, rows[:MAX_ROWS])
    if len(rows) > MAX_ROWS:
        lines.append(f"and {len(rows) - MAX_ROWS} more groups; --json lists them")
    return "".join(f"{line if columns is None else cut(line, columns)}\n" for line in lines)


def _row(one: RunFindings, group: GroupLateness, *, several: bool) -> tuple[str, ...]:
    is_late = group.kind is Lateness.LATE
    last = {Lateness.UNEVEN: "varies", Lateness.EVEN: "none", Lateness.UNKNOWN: "unknown"}
    return (
        cut(printable(one.run.run[0]), MAX_JOB) if several else "",
        cut(printable(group.of.group.label), MAX_GROUP),
        clip(format_ranks(group.ranks), MAX_NAMES) if is_late else last[group.kind],
        f"{f'{group.times} of ' if is_late else ''}{group.count} {printable(group.call, MAX_GROUP)}",
        duration(group.by) if is_late else "",
        f"{max(0.0, group.lost):.1%}" if group.kind is not Lateness.UNKNOWN else "",
        clip(format_ranks(group.of.group.numbers), MAX_NAMES),
    )


def slow_document(found: Sequence[RunFindings], seconds: float) -> dict[str, object]:
    """Return the findings as a JSON document; ``seconds`` is the requested duration of the sampling."""
    several = len({one.run.run for one in found}) > 1
    return {
        "schema": 1,
        "asked": sum(max(world_size(one.run.roster) or 0, len(one.run.roster)) for one in found),
        "answered": sum(len(one.run.samples) for one in found),
        "seconds": seconds,
        "verdicts": [
            _verdict_document(verdict, one)
            for findings in found
            for verdict, one in diagnoses(findings, several_jobs=several)
        ],
        "groups": [_group_document(one, group) for one in found for group in one.groups],
    }


def _verdict_document(verdict: SlowVerdict, samples: Diagnosis) -> dict[str, object]:
    one = verdict.worst
    is_late = one is not None and verdict.kind is Lateness.LATE
    return {
        "kind": verdict.kind.value,
        **document_of(samples),
        "times": one.times if one is not None and is_late else None,
        "count": one.count if one is not None else None,
        "by": _rounded(one.by) if one is not None and is_late else None,
        "lost": _rounded(one.lost) if one is not None else None,
    }


def _group_document(one: RunFindings, group: GroupLateness) -> dict[str, object]:
    return {
        "job": one.run.run[0],
        "group": group.of.group.label,
        "members": format_ranks(group.of.group.numbers),
        "kind": group.kind.value,
        "collective": group.call,
        "count": group.count,
        "ranks": format_ranks(group.ranks) or None,
        "times": group.times,
        "by": _rounded(group.by),
        "lost": _rounded(group.lost),
        "clocks": _rounded(group.of.looseness) if math.isfinite(group.of.looseness) else None,
    }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 6)
