"""From the samples of a run to its verdicts: one sentence each, the rank that holds the others up first. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dbg_client.slow.lacks import lacks_of
from dbg_client.slow.lateness import GroupLateness, Lateness, SlowVerdict, duration, held_up_by, judge
from dbg_client.slow.meetings import MICROSECONDS, SampledRun, meetings_of
from dbg_client.slow.whereabouts import Waiting, Whereabouts, outside_of_collectives, waiting_of, whereabouts
from dbg_client.why.verdict import Certainty, NamedRanks, NextStep, agreeing
from dbg_wire.errors import printable
from dbg_wire.records.ranks import LIVE_STATES, RankState

MAX_RANKS = 3
"""Late ranks of which it is told where they are; a whole host is late for one reason."""

MAX_GROUPS = 4
"""Further groups that are told below a sentence; the table has all."""

PAUSES = 3
"""Usual times between collectives after which a job without a new one stands still."""

MAY_HANG = NextStep("dbg-attach why", "tells whether it hangs")

STANDS = 0.95
"""The part of the looks in which others wait from which on a rank that does not may hang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFindings:
    """The verdicts on one run, the worst first, and what each of its groups tells."""

    run: SampledRun
    verdicts: tuple[SlowVerdict, ...]
    groups: tuple[GroupLateness, ...]
    waiting: tuple[Waiting, ...] = ()


def find(run: SampledRun, *, several_jobs: bool) -> RunFindings:
    """Return what the samples of one run tell."""
    judged = tuple(sorted((judge(group) for group in meetings_of(run)), key=lambda one: -one.lost))
    looks = tuple(waiting_of(run)) if all(one.kind is Lateness.UNKNOWN for one in judged) else ()
    making = _Verdicts(run, judged, looks, NamedRanks(run.run, run.roster, several_jobs=several_jobs))
    return RunFindings(run=run, verdicts=tuple(making.verdicts()), groups=judged, waiting=looks)


class _Verdicts:
    """Makes the verdicts on one run."""

    def __init__(
        self, run: SampledRun, groups: Sequence[GroupLateness], looks: Sequence[Waiting], names: NamedRanks
    ) -> None:
        self._run = run
        self._groups = groups
        self._looks = looks
        self._names = names
        self._samples = {number: sampled.sample for number, sampled in run.told.items()}

    def verdicts(self) -> list[SlowVerdict]:
        """Return them, the worst first."""
        halted = [n for n, one in self._run.roster.items() if one.rank.state in (RankState.STOPPED, RankState.HELD)]
        if halted:
            whom = f"{self._names.ranks(halted)} {agreeing(halted, 'stands', 'stand')} in a debugger"
            return [self._unknown(f"{whom}, so that the job does not move")]
        if not self._run.told:
            return [self._unknown("no rank has told anything")]
        if self._stands():
            return [self._standing()]
        late = self._late()
        if late:
            return late
        told = next((one for one in self._groups if one.kind is Lateness.UNEVEN), None)
        if told is not None:
            return [self._uneven(told)]
        told = next((one for one in self._groups if one.kind is Lateness.EVEN), None)
        if told is not None:
            return [self._even(told)]
        return self._by_looks() or [self._no_verdict()]

    # ------------------------------------------------------------------------------------------------------ each kind

    def _late(self) -> list[SlowVerdict]:
        """Return a verdict for each set of late ranks that nobody else has held up before."""
        late = [one for one in self._groups if one.kind is Lateness.LATE]
        chains = {id(one): held_up_by(one, self._groups) for one in late}
        roots = [one for one in late if chains[id(one)] is None] or late[:1]
        found: dict[tuple[int, ...], list[GroupLateness]] = {}
        for one in roots:
            found.setdefault(one.ranks, []).append(one)
        verdicts = []
        for ranks, groups in found.items():
            caused = [
                one for one in late if (by := chains[id(one)]) is not None and by[0] in ranks and one not in groups
            ]
            verdicts.append(self._late_verdict(groups, caused))
        return verdicts

    def _late_verdict(self, groups: Sequence[GroupLateness], caused: Sequence[GroupLateness]) -> SlowVerdict:
        worst = groups[0]
        s = "s" if len(worst.ranks) == 1 else ""
        certainty = Certainty.LIKELY if worst.of.is_enqueued else Certainty.SURE
        comes = f"come{s}" if certainty is Certainty.SURE else f"seem{s} to come"
        where = _of(worst)
        sentence = (
            f"{self._names.described(worst.ranks)} {comes} last in {worst.times} of {worst.count} {where}, "
            f"by {duration(worst.by)}; {_cost(worst)}"
        )
        also = [f"also in {one.times} of {one.count} {_of(one)}, by {duration(one.by)}" for one in groups[1:MAX_GROUPS]]
        also += [
            f"{self._names.ranks(one.ranks)} {agreeing(one.ranks, 'is', 'are')} late by that in {_of(one)}"
            for one in caused[:MAX_GROUPS]
        ]
        return SlowVerdict(
            kind=Lateness.LATE,
            job=self._run.run[0],
            sentence=sentence,
            certainty=certainty,
            ranks=worst.ranks,
            group=worst.of.group.label,
            collective=worst.call,
            times=worst.times,
            count=worst.count,
            by=worst.by,
            lost=worst.lost,
            step=worst.step.seconds if worst.step is not None else None,
            step_without=worst.step.seconds - worst.saved if worst.step is not None else None,
            evidence=(*self._about(worst), *also, *self._limits(worst)),
            next=self._names.entering(worst.ranks),
        )

    def _uneven(self, one: GroupLateness) -> SlowVerdict:
        sentence = (
            f"no rank is late in particular: {_of(one)} cost {one.lost:.0%} of the time, "
            "in which ranks wait each time for another one"
        )
        return self._about_group(Lateness.UNEVEN, one, sentence)

    def _even(self, one: GroupLateness) -> SlowVerdict:
        sentence = (
            f"nobody is late: the ranks come to {one.count} {_of(one)} within {duration(max(one.behind.values()))}, "
            f"and waiting for one another costs {max(0.0, one.lost):.1%} of the time"
        )
        return self._about_group(Lateness.EVEN, one, sentence)

    def _about_group(self, kind: Lateness, one: GroupLateness, sentence: str) -> SlowVerdict:
        return SlowVerdict(
            kind=kind,
            job=self._run.run[0],
            sentence=sentence,
            certainty=Certainty.SURE,
            group=one.of.group.label,
            collective=one.call,
            count=one.count,
            lost=one.lost,
            step=one.step.seconds if one.step is not None else None,
            evidence=tuple(self._limits(one)),
        )

    def _by_looks(self) -> list[SlowVerdict]:
        """Return verdicts from looks alone, where no recorder tells when ranks came."""
        if not self._looks:
            return []
        late = [one for one in self._looks if one.ranks]
        if not late:
            most = max(self._looks, key=lambda one: one.others)
            sentence = (
                f"nobody is late: the ranks wait about equally long in {_waited(most)}, {most.others:.0%} of the time"
            )
            return [self._from_looks(Lateness.EVEN, most, sentence, ())]
        return [self._late_by_looks(one) for one in sorted(late, key=lambda one: one.least - one.others)]

    def _late_by_looks(self, one: Waiting) -> SlowVerdict:
        wait = agreeing(one.ranks, "waits", "wait")
        sentence = (
            f"{self._names.described(one.ranks)} {wait} least for others: in {_waited(one)} in {one.least:.0%} of "
            f"{one.looks} looks, the others in {one.others:.0%}"
        )
        evidence = []
        for number in one.ranks[:MAX_RANKS]:
            evidence += self._places(number, outside_of_collectives(self._run.told[number]), len(one.ranks))
            evidence += lacks_of(number, self._samples, self._run.roster)
        verdict = self._from_looks(Lateness.LATE, one, sentence, evidence)
        if one.others >= STANDS:
            return replace(verdict, next=MAY_HANG)
        return replace(verdict, next=self._names.entering(one.ranks))

    def _from_looks(self, kind: Lateness, one: Waiting, sentence: str, evidence: Sequence[str]) -> SlowVerdict:
        return SlowVerdict(
            kind=kind,
            job=self._run.run[0],
            sentence=sentence,
            certainty=Certainty.LIKELY,
            ranks=one.ranks,
            group=one.label or None,
            collective=one.call,
            evidence=(*evidence, *self._sources(), *self._silent()),
        )

    def _standing(self) -> SlowVerdict:
        seconds = statistics.median(sample.seconds for sample in self._samples.values())
        sentence = (
            f"no rank has come to a collective in these {seconds:.0f} s: the job stands still, or its steps are long"
        )
        return self._unknown(sentence, MAY_HANG)

    def _no_verdict(self) -> SlowVerdict:
        loose = [one for one in self._groups if one.count and one.of.looseness > 0]
        if loose:
            clocks = f"the clocks of its hosts can be compared to {duration(loose[0].of.looseness)} at best"
            if not math.isfinite(loose[0].of.looseness):
                clocks = "nothing tells how far the clocks of its hosts are apart"
            return self._unknown(f"it can't be told who is late in {_name(loose[0])}: {clocks}")
        return self._unknown("it can't be told who is late: too few collectives were seen")

    def _unknown(self, sentence: str, following: NextStep | None = None) -> SlowVerdict:
        return SlowVerdict(
            kind=Lateness.UNKNOWN,
            job=self._run.run[0],
            sentence=sentence,
            certainty=Certainty.LIKELY,
            evidence=(*self._sources(), *self._silent()),
            next=following,
        )

    # ------------------------------------------------------------------------------------------------------- evidence

    def _stands(self) -> bool:
        """Tell whether a recorder tells of collectives, and of none in the time of the sampling and before its end."""
        last = ends = -float("inf")
        pauses = [one.of.span / (one.count - 1) for one in self._groups if one.count > 1]
        for arrivals in self._run.arrivals.values():
            for number, row in arrivals.items():
                last = max(last, (row.begin + row.came[-1]) / MICROSECONDS - self._run.shift(number))
                ends = max(ends, self._run.told[number].sample.clock / MICROSECONDS - self._run.shift(number))
        if last == -float("inf"):
            return False
        seconds = max((sample.seconds for sample in self._samples.values()), default=0.0)
        return ends - last > max(seconds, PAUSES * min(pauses, default=0.0))

    def _about(self, one: GroupLateness) -> list[str]:
        """Say where the late ranks are meanwhile, and what they lack."""
        lines = []
        for number in one.ranks[:MAX_RANKS]:
            lines += self._places(number, whereabouts(self._run, one, number), len(one.ranks))
            lines += [
                f"rank {number}: {line}" if len(one.ranks) > 1 else line
                for line in lacks_of(number, self._samples, self._run.roster)
            ]
        return lines

    def _places(self, number: int, found: Sequence[Whereabouts], late: int) -> list[str]:
        if not found:
            return []
        first, *more = found
        then = "meanwhile" if first.is_awaited else "outside of collectives"
        who = f"rank {number}" if late > 1 else "it"
        others = "".join(f", {place.place} in {place.looks}" for place in more)
        return [f"{then} {who} is at {first.place} in {first.looks} of {first.of} looks{others}"]

    def _limits(self, one: GroupLateness) -> list[str]:
        """Say what the figures do not tell."""
        lines = []
        if one.of.is_enqueued:
            lines.append(
                "these are the times at which hosts call; TORCH_NCCL_ENABLE_TIMING=1 in the job's environment has "
                "those of the devices recorded"
            )
        if one.of.looseness:
            lines.append(f"times of different hosts are compared to within {duration(one.of.looseness)}")
        if one.of.unheard:
            lines.append(f"{self._names.ranks(one.of.unheard)} of {_name(one)} told nothing, and may be later")
        return [*lines, *self._sources(), *self._silent(known=one.of.unheard)]

    def _sources(self) -> list[str]:
        """Say what libraries could not tell, once for all ranks that say the same."""
        lacks = {source.lack for sampled in self._run.told.values() for source in sampled.sources if source.lack}
        return [printable(lack, 300) for lack in sorted(lacks)[:MAX_GROUPS]]

    def _silent(self, known: Sequence[int] = ()) -> list[str]:
        silent = [
            number
            for number, one in self._run.roster.items()
            if number not in self._run.told and number not in known and one.rank.state in LIVE_STATES
        ]
        return [f"{self._names.ranks(silent)} did not answer"] if silent else []


def _of(one: GroupLateness) -> str:
    """Return ``all_reduce of dp_0``."""
    return f"{printable(one.call, 60)} of {_name(one)}"


def _name(one: GroupLateness) -> str:
    return printable(one.of.group.label or "the job", 100)


def _waited(one: Waiting) -> str:
    return f"{printable(one.call, 60)} of {printable(one.label, 100)}" if one.label else printable(one.call, 60)


def _cost(one: GroupLateness) -> str:
    """Say what late ranks cost: of a step, if the loop has steps, else of the time."""
    if one.step is None or one.saved <= 0 or one.saved >= one.step.seconds:
        return f"that costs {one.lost:.0%} of the time"
    step, without = one.step.seconds, one.step.seconds - one.saved
    if step >= 1:
        shown = f"{without:.2f}" if round(step, 1) == round(without, 1) else f"{without:.1f}"
        whole = f"{step:.2f} s" if round(step, 1) == round(without, 1) else f"{step:.1f} s"
        return f"a step takes {whole} instead of {shown}"
    return f"a step takes {1000 * step:.0f} ms instead of {1000 * without:.0f}"
