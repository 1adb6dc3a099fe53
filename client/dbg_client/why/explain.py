"""Verdicts on jobs, from one or several snapshots of their ranks. Pure.

Ranks that have been in the same collective, or at the same place in the code, for five seconds are not doing normal
work. For shorter times a second snapshot is needed to decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from dbg_client.why.collective_matching import Matched, PendingCollective, is_certain, match_collectives
from dbg_client.why.condition import RankCondition, State, condition_of, main_wait
from dbg_client.why.names import NamedRanks
from dbg_client.why.process_groups import RankEvidence, world_size
from dbg_client.why.progress import JobProgress, movement
from dbg_client.why.roots import awaited_ranks, find_roots
from dbg_client.why.verdict import (
    HARMLESS,
    IN_COLLECTIVES,
    PATIENT_SECONDS,
    Certainty,
    Finding,
    Topic,
    Verdict,
    VerdictKind,
    worst_first,
)
from dbg_client.why.verdicts import (
    OLD_SECONDS,
    absent_verdict,
    own_verdicts,
    silence_verdict,
    unmoved_verdict,
    verdict_of,
)
from dbg_client.why.wait_analysis import analyse_waits, last_call
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.evidence import WaitKind
from dbg_wire.records.ranks import LIVE_STATES, RankInfo, RankState

LAST_SNAPSHOT_SECONDS = 5.0
"""Seconds between the first and the last snapshot. A state that has not changed in this time is not normal work."""

STANDING_STILL = (RankState.STOPPED, RankState.HELD)

_NAMES_CULPRITS = frozenset({*IN_COLLECTIVES, VerdictKind.DEADLOCK}) - {VerdictKind.ORDER, VerdictKind.MISMATCH}
"""Kinds whose sentence also describes the problem of each named rank, so these ranks need no other verdict."""


_MAY_MOVE = frozenset({WaitKind.NATIVE, WaitKind.PYTHON})
"""Waits of these kinds may be computation: a rank in C code or in Python code may be working."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSnapshot:
    """Evidence of all ranks, ``at`` seconds after the first snapshot."""

    at: float
    everybody: Sequence[RankEvidence]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Verdicts, the worst first; ``is_settled`` is False if another snapshot might change them.

    ``asked`` is the number of ranks that the jobs should have by their world sizes, and ``answered`` the number of
    answers. ``missing`` are the ranks that verdicts name as missing from a collective.
    """

    verdicts: tuple[Verdict, ...]
    asked: int
    answered: int
    missing: tuple[RankInfo, ...]
    is_settled: bool


@dataclass(slots=True, kw_only=True)
class _Judged:
    """Verdicts on the collectives of one run: ``certain`` ones, and facts about waits that may be normal work.

    ``young`` are ranks in collectives that are too recent to judge. ``workers`` are ranks that work while others wait;
    ``notes`` describe them. ``is_open`` means that another snapshot may decide whether the work is normal.
    """

    certain: list[Verdict] = field(default_factory=list)
    young: set[int] = field(default_factory=set)
    notes: list[Finding] = field(default_factory=list)
    workers: set[int] = field(default_factory=set)
    is_open: bool = False


def explain(snapshots: Sequence[JobSnapshot], now: float) -> Explanation:
    """Return the verdicts on the jobs of the last snapshot; ``now`` is wall-clock seconds.

    The first snapshot serves to find the ranks that have made progress.
    """
    first, last = snapshots[0], snapshots[-1]
    before = {one.run: one for one in match_collectives(first.everybody)} if len(snapshots) > 1 else {}
    matched = match_collectives(last.everybody)
    several_jobs = len({one.run[0] for one in matched}) > 1
    found: list[Verdict] = []
    missing: list[RankInfo] = []
    is_settled = True
    # The first snapshot may have no records of libraries, because an agent may read them only when a waiting rank is
    # asked again.
    telling = IN_COLLECTIVES if len(snapshots) == 1 else frozenset(VerdictKind) - HARMLESS
    for one in matched:
        moved = movement(before[one.run], one, last.at - first.at) if one.run in before else JobProgress()
        run = _RunVerdicts(one, before.get(one.run), moved, last.at - first.at, now, several_jobs=several_jobs)
        verdicts, settled = run.verdicts()
        found += verdicts
        # With several jobs, one may clearly hang while another needs a further snapshot.
        is_settled = is_settled and (settled or any(one.kind in telling and one.is_settled for one in verdicts))
        numbers = {number for verdict in verdicts if _names_missing(verdict) for number in verdict.ranks}
        missing += [one.roster[number].rank for number in sorted(numbers) if number in one.roster]
    if not matched:
        found.append(Verdict(kind=VerdictKind.UNKNOWN, job=""))
    return Explanation(
        verdicts=tuple(worst_first(found)),
        asked=sum(max(world_size(one.roster) or 0, len(one.roster)) for one in matched),
        answered=sum(one.answer.kind is Kind.VALUE for each in matched for one in each.roster.values()),
        missing=tuple(missing),
        is_settled=is_settled,
    )


def _names_missing(verdict: Verdict) -> bool:
    # In this deadlock, a rank outside the collective waits for a resource of a rank inside. The outer rank is missing,
    # too.
    is_held = verdict.kind is VerdictKind.DEADLOCK and verdict.collective is not None
    return verdict.kind is VerdictKind.MISSING or is_held


class _RunVerdicts:
    def __init__(
        self,
        matched: Matched,
        before: Matched | None,
        moved: JobProgress,
        seconds: float,
        now: float,
        *,
        several_jobs: bool,
    ) -> None:
        """Compare the last snapshot of one run with the first one.

        ``before`` is None if there is only one snapshot. ``moved`` are the changes between the two snapshots, and
        ``seconds`` is the time between them.
        """
        roster = matched.roster
        names = NamedRanks(matched.run, roster, several_jobs=several_jobs)
        self._matched = matched
        self._seconds = seconds
        self._has_two = before is not None
        self._moved = moved
        earlier = before.roster if before is not None else {}
        conditions = {
            number: self._aged(one, condition_of(one, now), earlier.get(number)) for number, one in roster.items()
        }
        waits_for = awaited_ranks(matched, conditions)
        children = [(child, condition_of(child, now)) for child in matched.children]
        self._analysis = analyse_waits(matched, conditions, names, self._moved, waits_for, children=children)
        self._roots = find_roots(self._analysis, waits_for)
        got_on = self._moved.moved | self._moved.data
        # The stack of a rank that polls a file changes too, without progress.
        self._working = frozenset(n for n in self._moved.working if n in got_on or not _polls(roster[n]))
        self._seen = {_key(pending) for pending in before.all_pending} if before is not None else set()

    def verdicts(self) -> tuple[list[Verdict], bool]:
        """Return the verdicts, and whether they are settled."""
        judged = self._judge()
        found = judged.certain
        named = {n for one in found if one.kind in _NAMES_CULPRITS for n in one.ranks}
        found += own_verdicts(self._analysis, named, self._working, has_waits=bool(found) or not self._has_two)
        found += absent_verdict(self._analysis, named)
        silence = silence_verdict(self._analysis)
        unmoved = self._unmoved(judged.young)
        is_quiet = not any(
            verdict.kind not in (VerdictKind.ABSENT, VerdictKind.DEAD, VerdictKind.ENDED) for verdict in found
        )
        answers = any(one.answer.kind is Kind.VALUE for one in self._matched.roster.values())
        # Recent collectives do not show that the job is busy. Only a rank that has made progress shows that.
        tells = answers and (unmoved or self._moved.moved)
        if is_quiet and silence is None and (tells or not found):
            found.append(self._of_quiet_job(judged, unmoved))
        if silence is not None and not any(set(silence.ranks) <= set(verdict.ranks) for verdict in found):
            found.append(silence)
        may_move = is_quiet and answers and (bool(unmoved) or not self._moved.moved)
        # A rank that has long been at one instruction, and does not compute, will still be there at the next snapshot.
        may_move = may_move and (not unmoved or not all(map(self._has_long_stood, unmoved)))
        is_open = judged.is_open or (may_move and self._seconds < LAST_SNAPSHOT_SECONDS)
        return found, self._has_two and not is_open

    def _has_long_stood(self, number: int) -> bool:
        one = self._matched.roster[number]
        main = main_wait(one)
        return (one.answer.age or 0.0) >= OLD_SECONDS and (main is None or main.kind not in _MAY_MOVE)

    def _of_quiet_job(self, judged: _Judged, unmoved: set[int]) -> Verdict:
        notes = tuple(judged.notes)
        if unmoved or not self._moved.moved:
            verdict = unmoved_verdict(self._analysis, unmoved or self._unmoved(set()), notes)
            # Name a working rank that others wait for, if there is one: it explains more than the ranks without
            # progress.
            is_reported = notes and unmoved <= judged.workers
            return replace(verdict, finding=notes[0], notes=notes[1:]) if is_reported else verdict
        return Verdict(
            kind=VerdictKind.BUSY,
            job=self._analysis.job,
            finding=Finding(topic=Topic.BUSY),
            analysis=self._analysis,
            certainty=Certainty.SURE,
            ranks=tuple(sorted(self._moved.moved)),
            notes=notes,
        )

    def _aged(self, one: RankEvidence, condition: RankCondition, before: RankEvidence | None) -> RankCondition:
        """Return the condition. If the rank polls or loops, set its age to at least the time between the snapshots.

        The reported age of such a rank is too short, because polling changes the instruction.
        """
        number = one.rank.rank
        loop = self._moved.loops.get(number) or (condition.does if condition.is_loop else None)
        if loop is not None and not condition.is_still:
            call = last_call(one, None)
            # The rank entered the loop after its latest finished collective, so the loop is at most as old as ``call``.
            most = int(call.age) if call is not None and call.age is not None and call.age >= 1 else None
            return replace(
                condition,
                state=State.WAITS,
                kind=VerdictKind.WAITING,
                does=loop.replace(total=most, seconds=self._seconds),
                is_sure=False,
                age=max(condition.age or 0.0, self._seconds),
            )
        if before is None or number in self._moved.moved | self._moved.data or not _polls(one):
            return condition
        is_same = _polls(before) == _polls(one) and before.rank.key == one.rank.key
        return replace(condition, age=max(condition.age or 0.0, self._seconds)) if is_same else condition

    def _judge(self) -> _Judged:
        judged = _Judged()
        for root in self._roots:
            all_pending = root.cycle or (root.pending,)
            verdict = verdict_of(self._analysis, root)
            if not any(self._is_old(pending, verdict) for pending in all_pending):
                self._keep_open(judged, all_pending)
            elif self._may_work(verdict, all_pending):
                self._note_work(judged, root, verdict, all_pending)
            else:
                judged.certain.append(replace(verdict, is_settled=self._has_two or not self._may_move(verdict)))
        return judged

    def _may_move(self, verdict: Verdict) -> bool:
        """Return True if one snapshot can't show whether the awaited ranks work or are stuck."""
        mains = [main_wait(one) for n in verdict.ranks if (one := self._matched.roster.get(n)) is not None]
        may = any(main is not None and main.kind in _MAY_MOVE for main in mains)
        return may and verdict.kind in (VerdictKind.MISSING, VerdictKind.PARTNER)

    def _is_old(self, pending: PendingCollective, verdict: Verdict) -> bool:
        if is_certain(pending):
            return True
        if self._has_two and _key(pending) not in self._seen:
            # Calls may be enqueued long before they run, so ignore the age of a collective that was not pending before.
            return False
        return max(pending.age or 0.0, self._seconds) >= OLD_SECONDS or self._is_held_up(pending, verdict)

    def _is_held_up(self, pending: PendingCollective, verdict: Verdict) -> bool:
        """Return True if the missing ranks are known to wait elsewhere, even if the collective is recent."""
        conditions = [self._analysis.conditions.get(number) for number in pending.missing]
        if not conditions and verdict.kind in (VerdictKind.MISSING, VerdictKind.PARTNER):
            # These ranks may have called the collective before they ended. If others still wait in it some seconds
            # later, these ranks have not called it.
            gone = [self._analysis.conditions.get(number) for number in verdict.ranks]
            long = min(self._seconds, OLD_SECONDS) if self._has_two else OLD_SECONDS
            return all(one is not None and (one.age or 0.0) >= long for one in gone)
        return bool(conditions) and all(
            one is not None and one.kind is not None and (one.is_still or (one.age or 0.0) >= OLD_SECONDS)
            for one in conditions
        )

    def _keep_open(self, judged: _Judged, all_pending: Sequence[PendingCollective]) -> None:
        judged.young.update(number for pending in all_pending for number in (*pending.calls, *pending.missing))
        if not self._has_two or any(_key(pending) in self._seen for pending in all_pending):
            judged.is_open = True

    def _may_work(self, verdict: Verdict, all_pending: Sequence[PendingCollective]) -> bool:
        """Return True if the awaited ranks seem to work, or if data is still being exchanged."""
        if verdict.kind is VerdictKind.UNKNOWN:
            return bool(self._moved.data & set(verdict.others + verdict.ranks))
        if verdict.kind not in (VerdictKind.MISSING, VerdictKind.PARTNER):
            return False
        if max(pending.age or 0.0 for pending in all_pending) >= PATIENT_SECONDS:
            return False
        conditions = [self._analysis.conditions.get(number) for number in verdict.ranks]
        # C code that computes stays at one Python instruction, so the age of a STUCK rank proves nothing.
        if any(
            one is None or one.is_still or ((one.age or 0.0) >= OLD_SECONDS and one.kind is not VerdictKind.STUCK)
            for one in conditions
        ):
            return False
        return not self._has_two or set(verdict.ranks) <= self._working

    def _note_work(
        self, judged: _Judged, root: Finding, verdict: Verdict, all_pending: Sequence[PendingCollective]
    ) -> None:
        judged.young.update(number for pending in all_pending for number in (*pending.calls, *pending.missing))
        judged.workers.update(verdict.ranks)
        if not self._has_two:
            judged.is_open = True
            return
        works = root.topic in (Topic.MISSING, Topic.NO_PARTNER)
        judged.notes.append(root if works else Finding(topic=Topic.GOES_ON, collective=root.collective))

    def _unmoved(self, young: set[int]) -> set[int]:
        """Return the ranks that answered and made no progress, except ranks in collectives that may be normal work."""
        return {
            number
            for number, one in self._matched.roster.items()
            if one.rank.state in LIVE_STATES
            and one.rank.state not in STANDING_STILL
            and one.answer.kind is Kind.VALUE
            and number not in self._moved.moved
            and number not in young
        }


def _polls(one: RankEvidence) -> tuple[object, ...]:
    """Return a key of the file or process that a main thread waits for; empty if there is no such wait.

    The key contains no age, so it is the same in each snapshot.
    """
    main = main_wait(one)
    if main is None or (main.kind is not WaitKind.FILE and (main.kind is not WaitKind.DATA or main.holder is None)):
        return ()
    does = main.does
    return does.what, main.holder, does.name, does.target, does.descriptor, does.count


def _key(pending: PendingCollective) -> tuple[object, ...]:
    name = pending.name if pending.sequence is None or pending.has_peer else ""
    waiting = pending.waiting if pending.has_peer else ()
    return pending.group.library, pending.group.name, pending.group.numbers, pending.sequence, name, waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class HangEvidence:
    """Snapshots of a job's ranks; ``now`` is the time of the last one, in wall-clock seconds."""

    snapshots: Sequence[JobSnapshot]
    now: float

    def explanation(self) -> Explanation:
        """Return the verdicts on these snapshots."""
        return explain(self.snapshots, self.now)


class SavedJob(NamedTuple):
    """Job from a saved report: the last answer of each rank, and the verdicts. Its ranks can't be asked any more."""

    about: str
    now: float
    ranks: tuple[RankInfo, ...]
    answers: tuple[RankAnswer, ...]
    found: Explanation
