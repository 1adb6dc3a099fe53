"""Verdicts on root causes in the wait-for graph, and on ranks that no other rank waits for. Pure."""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from dbg_client.why.collective_matching import Difference, difference_of, is_certain, sides
from dbg_client.why.condition import RankCondition
from dbg_client.why.process_groups import RankEvidence, world_size
from dbg_client.why.verdict import Certainty, Finding, NextStep, Topic, Verdict, VerdictKind, certainty_of
from dbg_client.why.wait_analysis import WaitAnalysis
from dbg_wire.messages import Kind
from dbg_wire.records.ranks import DIED, LIVE_STATES, RankInfo, RankState

OLD_SECONDS = 5.0
"""Seconds after which a rank that stays at one instruction, or in one collective, is not doing normal work."""

AT_ONCE_SECONDS = 0.1
"""Ranks that die within this number of seconds after the first rank are reported together with the first rank."""


class _Judged(NamedTuple):
    """Kind and certainty of a problem with a collective, and the next command."""

    kind: VerdictKind
    certainty: Certainty | None
    next: NextStep | None


def verdict_of(analysis: WaitAnalysis, found: Finding) -> Verdict:
    """Return the verdict on a root cause that blocks collectives."""
    pending, judged = found.pending, _JUDGES[found.topic](analysis, found)
    found.certainty = judged.certainty
    calls = pending.all_calls if found.topic is Topic.CONFLICT else pending.calls
    has_cause = found.ranks and set(found.ranks) <= {*pending.missing, *pending.unheard}
    return Verdict(
        kind=judged.kind,
        job=analysis.job,
        finding=found,
        analysis=analysis,
        certainty=judged.certainty,
        next=judged.next,
        ranks=tuple(sorted(found.ranks)),
        others=tuple(number for number in sorted(calls) if number not in found.ranks),
        cause=_cause(analysis, found.ranks) if has_cause and found.topic is not Topic.DOUBTFUL else None,
        group=pending.group.label or None,
        collective=pending.name or None,
        sequence=pending.sequence,
        age=pending.age,
    )


def _cause(analysis: WaitAnalysis, ranks: Collection[int]) -> VerdictKind | None:
    condition = analysis.conditions.get(min(ranks))
    return condition.kind if condition is not None else VerdictKind.ABSENT


def _missing(analysis: WaitAnalysis, found: Finding) -> _Judged:
    certainty = certainty_of([found.pending])
    conditions = [analysis.conditions.get(number) for number in found.ranks]
    all_gone = all(one is None or one.kind in (VerdictKind.DEAD, VerdictKind.ENDED) for one in conditions)
    if set(found.ranks) & set(found.pending.unheard) and not all_gone:
        # All other ranks have arrived, so the ranks without a report must be missing.
        certainty = Certainty.LIKELY
    return _Judged(VerdictKind.MISSING, certainty, analysis.names.entering(found.ranks))


def _no_partner(analysis: WaitAnalysis, found: Finding) -> _Judged:
    pending = found.pending
    # If two tags differ, either may be the wrong one.
    both = (pending.waiting[0], *found.ranks)
    following = analysis.names.looking(both) if pending.tag is not None else analysis.names.entering(found.ranks)
    return _Judged(VerdictKind.PARTNER, certainty_of([pending]), following)


def _cycle(analysis: WaitAnalysis, found: Finding) -> _Judged:
    kind = VerdictKind.PARTNER if all(one.has_peer for one in found.cycle) else VerdictKind.ORDER
    return _Judged(kind, certainty_of(found.cycle), analysis.names.looking(one.waiting[0] for one in found.cycle[:2]))


def _held(analysis: WaitAnalysis, found: Finding) -> _Judged:
    is_sure = analysis.is_sure(found.ranks) and certainty_of([found.pending]) is Certainty.SURE
    certainty = Certainty.SURE if is_sure else Certainty.LIKELY
    return _Judged(VerdictKind.DEADLOCK, certainty, analysis.names.entering(found.ranks))


def _conflict(analysis: WaitAnalysis, found: Finding) -> _Judged:
    pending = found.pending
    kind = VerdictKind.ORDER if difference_of(pending) is Difference.NAME else VerdictKind.MISMATCH
    certainty = Certainty.SURE if is_certain(pending) or pending.is_recorded else Certainty.LIKELY
    return _Judged(kind, certainty, analysis.names.looking(numbers[0] for _, numbers in sides(pending)[:2]))


def _alone(kind: VerdictKind) -> Callable[[WaitAnalysis, Finding], _Judged]:
    return lambda analysis, found: _Judged(kind, certainty_of([found.pending]), analysis.names.entering(found.ranks))


def _unknown_collective(analysis: WaitAnalysis, found: Finding) -> _Judged:
    known = [number for number in found.ranks if number in analysis.matched.roster]
    return _Judged(VerdictKind.UNKNOWN, None, analysis.names.looking(known))


_JUDGES: Mapping[Topic, Callable[[WaitAnalysis, Finding], _Judged]] = {
    Topic.MISSING: _missing,
    Topic.NO_PARTNER: _no_partner,
    Topic.CYCLE: _cycle,
    Topic.HELD: _held,
    Topic.CONFLICT: _conflict,
    Topic.LONELY: _alone(VerdictKind.ORDER),
    Topic.PEERLESS: _alone(VerdictKind.PARTNER),
    Topic.DOUBTFUL: _unknown_collective,
    Topic.COMPLETE: _unknown_collective,
}

# -------------------------------------------------------------------------------------------------- ranks by themselves


def own_verdicts(
    analysis: WaitAnalysis, named: Collection[int], working: Collection[int], *, has_waits: bool
) -> list[Verdict]:
    """Return a verdict for each kind of condition, without ranks that other verdicts have already ``named``.

    A rank that may continue by itself is omitted if it is one of the ``working`` ranks. With ``has_waits``, each rank
    that may continue by itself is omitted. Callers set ``has_waits`` if ranks wait in a collective, or if there is only
    one snapshot.
    """
    ranks: defaultdict[VerdictKind, list[int]] = defaultdict(list)
    well = all(one.rank.state is RankState.EXITED and one.rank.exit == 0 for one in analysis.matched.roster.values())
    for number, condition in analysis.conditions.items():
        is_news = condition.is_still or not (has_waits or number in working)
        if condition.kind is not None and is_news and _counts(analysis, number, condition):
            ranks[VerdictKind.ENDED if well else condition.kind].append(number)
    dead, after = _first_to_die(analysis, ranks.get(VerdictKind.DEAD, []))
    if after:
        ranks[VerdictKind.DEAD] = dead
    waiting = ranks.pop(VerdictKind.WAITING, [])
    behind = {number: holder for number in waiting if (holder := analysis.behind(number)) is not None}
    if cycle := [number for number in waiting if analysis.is_in_cycle(number)]:
        ranks[VerdictKind.DEADLOCK] = sorted([*ranks[VerdictKind.DEADLOCK], *cycle])
        waiting = [number for number in waiting if number not in cycle]
    ends = [n for n in waiting if n not in behind or not _is_reported(analysis, n, ranks, waiting)]
    ranks[VerdictKind.WAITING] = ends
    verdicts = []
    for kind, numbers in sorted(ranks.items()):
        fresh = [number for number in numbers if number not in named]
        if fresh:
            followers = [number for number in waiting if number in behind and analysis.last_behind(number) in fresh]
            followers = [number for number in followers if number not in fresh]
            verdicts.append(_of_kind(analysis, kind, fresh, followers, after if kind is VerdictKind.DEAD else ()))
    return verdicts


def _is_reported(
    analysis: WaitAnalysis, number: int, ranks: Mapping[VerdictKind, Sequence[int]], waiting: Sequence[int]
) -> bool:
    """Return True if this rank's chain of waits ends at another rank, and a verdict reports that rank."""
    last = analysis.last_behind(number)
    return last != number and (last in waiting or any(last in numbers for numbers in ranks.values()))


def absent_verdict(analysis: WaitAnalysis, named: Collection[int]) -> list[Verdict]:
    """Return a verdict on the ranks that never connected, unless other verdicts name all of them."""
    roster = analysis.matched.roster
    absent = tuple(number for number in range(world_size(roster) or 0) if number not in roster)
    if not absent or set(absent) <= set(named):
        return []
    return [_of_topic(analysis, Topic.ABSENT, VerdictKind.ABSENT, absent, Certainty.SURE)]


def _of_topic(
    analysis: WaitAnalysis, topic: Topic, kind: VerdictKind, ranks: Sequence[int], certainty: Certainty | None = None
) -> Verdict:
    found = Finding(topic=topic, ranks=tuple(ranks), certainty=certainty)
    return Verdict(
        kind=kind, job=analysis.job, finding=found, analysis=analysis, ranks=tuple(ranks), certainty=certainty
    )


def _first_to_die(analysis: WaitAnalysis, numbers: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the ranks that died first, and the ranks that failed later or were ended by a launcher."""
    ranks = {number: analysis.matched.roster[number].rank for number in numbers}
    kept = [rank.since for rank in ranks.values() if rank.state is RankState.STOPPED]
    if kept:
        # A rank that is kept after a crash has failed by itself.
        after = [n for n, rank in ranks.items() if rank.state is RankState.EXITED and rank.since > min(kept)]
        return [number for number in numbers if number not in after], after
    if any(rank.state is not RankState.EXITED for rank in ranks.values()):
        return list(numbers), []
    # When a rank dies, the other ranks of its collective fail within milliseconds with an exception.
    killed = [number for number, rank in ranks.items() if _ended_abruptly(rank)]
    by_themselves = killed or [number for number, rank in ranks.items() if rank.exit != -signal.SIGTERM]
    if not by_themselves:
        return list(numbers), []
    first = min(ranks[number].since for number in by_themselves)
    dead = [number for number in by_themselves if ranks[number].since <= first + AT_ONCE_SECONDS]
    return dead, [number for number in numbers if number not in dead]


def _ended_abruptly(rank: RankInfo) -> bool:
    is_killed = (rank.exit or 0) < 0 and rank.exit != -signal.SIGTERM
    return is_killed or rank.end.is_silent


def _counts(analysis: WaitAnalysis, number: int, condition: RankCondition) -> bool:
    rank = analysis.matched.roster[number].rank
    if rank.state is RankState.EXITED:
        return rank.exit != 0 or rank.reason == DIED
    if condition.kind in (VerdictKind.DEADLOCK, VerdictKind.SUSPENDED) or rank.state is not RankState.RUNNING:
        return True
    return condition.age is not None and condition.age >= OLD_SECONDS


def _of_kind(
    analysis: WaitAnalysis, kind: VerdictKind, numbers: Sequence[int], followers: Sequence[int], after: Sequence[int]
) -> Verdict:
    first = analysis.conditions[numbers[0]]
    verdict = _of_topic(analysis, Topic.OWN, kind, numbers, analysis.certainty(numbers))
    has_threads = any(analysis.conditions[number].threads for number in numbers)
    live = analysis.matched.roster[numbers[0]].rank.state in LIVE_STATES
    snapshots = has_threads and live
    return replace(
        verdict,
        finding=replace(verdict.finding, followers=tuple(followers), after=tuple(after)),
        others=tuple(followers),
        age=max((analysis.conditions[number].age or 0.0 for number in numbers), default=0.0) or None,
        is_settled=kind is not VerdictKind.WAITING or first.is_still,
        next=analysis.names.looking(numbers[:1], threads=True) if snapshots else analysis.names.entering(numbers),
    )


def silence_verdict(analysis: WaitAnalysis) -> Verdict | None:
    """Return a verdict on the live ranks that did not answer; None if all did."""
    # Omit ranks whose condition has a kind: such a rank already has a verdict.
    silent = [
        number
        for number, one in analysis.matched.roster.items()
        if _is_silent(one) and analysis.conditions[number].kind is None
    ]
    if not silent:
        return None
    verdict = _of_topic(analysis, Topic.SILENT, VerdictKind.UNKNOWN, silent)
    return replace(verdict, next=analysis.names.looking(silent))


def _is_silent(one: RankEvidence) -> bool:
    return one.rank.state in LIVE_STATES and one.answer.kind is not Kind.VALUE


def unmoved_verdict(analysis: WaitAnalysis, unmoved: Collection[int], notes: Sequence[Finding]) -> Verdict:
    """Return the verdict that some ranks made no progress for an unknown reason; ``notes`` are further findings."""
    numbers = sorted(unmoved)
    has_ended = all(one.rank.state is RankState.EXITED for one in analysis.matched.roster.values())
    verdict = _of_topic(analysis, Topic.UNMOVED, VerdictKind.ENDED if has_ended else VerdictKind.UNKNOWN, numbers)
    return replace(verdict, next=analysis.names.looking(numbers), notes=tuple(notes))
