"""Verdicts made of the roots of a graph of waits, and of what ranks do that nobody waits for. Pure."""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from dbg_client.why import sentences
from dbg_client.why.annotate import tag_of
from dbg_client.why.collective_matching import PendingCollective
from dbg_client.why.condition import Condition
from dbg_client.why.conflicts import Difference, certainty_of_difference, difference_of, is_parting, sides
from dbg_client.why.lines import call_lines, lacks, lines_about, time_left
from dbg_client.why.process_groups import RankEvidence, world_size
from dbg_client.why.roots import Root, RootKind, rank_circles
from dbg_client.why.scene import Scene
from dbg_client.why.verdict import (
    Certainty,
    NextStep,
    Verdict,
    VerdictKind,
    agreeing,
    certainty_of,
    short_name,
)
from dbg_wire.messages import Kind
from dbg_wire.records.ranks import DIED, LIVE_STATES, WITHOUT_TRACEBACK, RankInfo, RankState

OLD_SECONDS = 5.0
"""Seconds at one instruction, or in one collective, after which that is no part of usual work."""

AT_ONCE_SECONDS = 0.1
"""Seconds between the deaths of ranks that have died of the same."""

MAX_ALSO = 3
"""Further collectives that a line of evidence names."""

OTHER_TAGS = "a send with another tag that has ended would not be seen: no record is kept of it"

# --------------------------------------------------------------------------------------------------------- collectives


class _Told(NamedTuple):
    """What is told of the matter with a collective: of which ranks, how it is known, and what to do next."""

    kind: VerdictKind
    ranks: Collection[int]
    sentence: str
    evidence: Sequence[str]
    next: NextStep | None
    certainty: Certainty | None = None


def verdict_of(scene: Scene, root: Root) -> Verdict:
    """Return the verdict on a root to which collectives lead."""
    standing, told = root.standing, _TELLERS[root.kind](scene, root)
    calls = standing.all_calls if root.kind is RootKind.CONFLICT else standing.calls
    has_cause = told.ranks and set(told.ranks) <= {*standing.missing, *standing.unheard}
    return Verdict(
        kind=told.kind,
        job=scene.job,
        sentence=told.sentence,
        certainty=told.certainty,
        evidence=tuple(told.evidence),
        next=told.next,
        ranks=tuple(sorted(told.ranks)),
        others=tuple(number for number in sorted(calls) if number not in told.ranks),
        cause=_cause(scene, told.ranks) if has_cause and root.kind is not RootKind.DOUBTFUL else None,
        group=standing.group.label or None,
        collective=standing.name or None,
        sequence=standing.sequence,
        age=standing.age,
    )


def _cause(scene: Scene, ranks: Collection[int]) -> VerdictKind | None:
    first = min(ranks)
    condition = scene.conditions.get(first)
    return condition.kind if condition is not None else VerdictKind.ABSENT


def _missing(scene: Scene, root: Root) -> _Told:
    standing, culprits = root.standing, root.culprits
    if standing.has_peer:
        return _no_partner(scene, root)
    certainty = certainty_of([standing])
    if set(culprits) & set(standing.unheard) and not _all_gone(scene, culprits):
        # All others have come, so it must be the one that told nothing.
        certainty = Certainty.LIKELY
    sentence = sentences.missing(scene, root, certainty)
    evidence = [*_lines(scene, culprits, sentence, standing), *_others(scene, root), *call_lines(scene, standing)]
    if certainty is Certainty.LIKELY:
        evidence += lacks(scene.matched.roster, scene.names)
    enter = scene.names.entering(culprits)
    return _Told(VerdictKind.MISSING, culprits, sentence, evidence, enter, certainty)


def _lines(scene: Scene, ranks: Sequence[int], sentence: str, standing: PendingCollective | None = None) -> list[str]:
    """Return the lines about the ranks of a sentence, and the reason of a single one that it had no room for."""
    lines = lines_about(scene, ranks, standing, is_cause_told=len(ranks) == 1)
    reason = scene.reason(ranks[0])
    if len(ranks) == 1 and reason not in sentence and ranks[0] not in scene.moved.working:
        lines.insert(1, f"{scene.names.ranks(ranks)} {reason}")
    return lines


def _all_gone(scene: Scene, numbers: Sequence[int]) -> bool:
    conditions = [scene.conditions.get(number) for number in numbers]
    return all(one is None or one.kind in (VerdictKind.DEAD, VerdictKind.ENDED) for one in conditions)


def _no_partner(scene: Scene, root: Root) -> _Told:
    standing, peer = root.standing, root.culprits[0]
    certainty = certainty_of([standing])
    does_not = sentences.lacks_half(standing, standing.waiting[0])
    sentence = sentences.no_partner(scene, root, certainty)
    evidence = [
        *_lines(scene, [peer], sentence, standing),
        *lines_about(scene, standing.waiting, standing),
        *_others(scene, root),
        *([OTHER_TAGS] if standing.is_receive and "no send" in does_not else []),
        *call_lines(scene, standing),
    ]
    # Of two tags, either may be the wrong one.
    names, both = scene.names, (standing.waiting[0], peer)
    following = names.looking(both) if tag_of(standing) else names.entering([peer])
    return _Told(VerdictKind.PARTNER, [peer], sentence, evidence, following, certainty)


def _others(scene: Scene, root: Root) -> list[str]:
    """Tell of the silent members, and of the collectives that wait for the same ranks or behind them."""
    lines = []
    silent = [number for number in root.standing.unheard if number not in root.culprits]
    if silent:
        lines.append(f"{scene.names.ranks(silent)} did not tell of the group and may be missing, too")
    later = [number for number in root.standing.missing if number not in root.culprits]
    if later:
        lines.append(f"{scene.names.ranks(later)} {agreeing(later, 'has', 'have')} not come either")
        held_up = [number for number in later if scene.behind(number) is not None]
        lines += [f"rank {number} {scene.reason(number)}" for number in held_up[:MAX_ALSO]]
    for what, standings in (("for the same", root.also), ("behind them", root.behind)):
        if standings:
            named = ", ".join(short_name(one) for one in standings[:MAX_ALSO])
            more = f" and {len(standings) - MAX_ALSO} more" if len(standings) > MAX_ALSO else ""
            ranks = {number for one in standings for number in one.calls}
            wait = agreeing(ranks, "waits", "wait")
            lines.append(f"{scene.names.ranks(ranks)} {wait} {what} in {named}{more}")
    return lines


def _circle(scene: Scene, root: Root) -> _Told:
    circle = root.circle
    ranks = sorted({number for standing in circle for number in standing.waiting})
    peers = all(standing.has_peer for standing in circle)
    ended = scene.ended_in(circle)
    certainty = Certainty.LIKELY if ended is not None else certainty_of(circle)
    sentence = sentences.circle(scene, circle, certainty)
    told = [ended[1]] if ended is not None else []
    evidence = [*lines_about(scene, ranks, told=told), *time_left(circle[0])]
    kind = VerdictKind.PARTNER if peers else VerdictKind.ORDER
    look = scene.names.looking(standing.waiting[0] for standing in circle[:2])
    return _Told(kind, ranks, sentence, evidence, look, certainty)


def _held(scene: Scene, root: Root) -> _Told:
    standing, culprits = root.standing, root.culprits
    is_sure = scene.is_sure(culprits) and certainty_of([standing]) is Certainty.SURE
    certainty = Certainty.SURE if is_sure else Certainty.LIKELY
    sentence = sentences.held(scene, root, certainty)
    evidence = [*_lines(scene, culprits, sentence, standing), *_others(scene, root), *call_lines(scene, standing)]
    enter = scene.names.entering(culprits)
    return _Told(VerdictKind.DEADLOCK, culprits, sentence, evidence, enter, certainty)


def _conflict(scene: Scene, root: Root) -> _Told:
    standing = root.standing
    called = sides(standing)
    named = called if is_parting(called) else called[1:]
    culprits = sorted(number for _, numbers in named for number in numbers)
    evidence = lines_about(scene, standing.waiting, standing)
    finished = sorted(set(standing.finished) - set(standing.calls))
    if finished:
        have = agreeing(finished, "has", "have")
        evidence.append(f"{scene.names.ranks(finished)} {have} finished it and gone on")
    if standing.missing:
        evidence.append(f"{scene.names.described(standing.missing)} has come to neither")
    evidence += _others(scene, root) if len(standing.roots) > 1 else []
    kind = VerdictKind.ORDER if difference_of(standing) is Difference.NAME else VerdictKind.MISMATCH
    sentence, certainty = sentences.conflict(scene, standing), certainty_of_difference(standing)
    for number in culprits[:MAX_ALSO]:
        handles = scene.conditions[number].handles if number in scene.conditions else ""
        if handles and handles not in sentence:
            evidence.append(f"rank {number} {handles}")
    evidence += time_left(standing)
    look = scene.names.looking(numbers[0] for _, numbers in called[:2])
    return _Told(kind, culprits, sentence, evidence, look, certainty)


def _lonely(scene: Scene, root: Root) -> _Told:
    standing = root.standing
    number = standing.waiting[0]
    others = [other for other in standing.group.numbers if other != number]
    evidence = [
        *lines_about(scene, [number], standing),
        *lines_about(scene, others, standing),
        *call_lines(scene, standing),
    ]
    sentence, enter = sentences.lonely(scene, standing), scene.names.entering([number])
    return _Told(VerdictKind.ORDER, [number], sentence, evidence, enter, certainty_of([standing]))


def _peerless(scene: Scene, root: Root) -> _Told:
    standing = root.standing
    number = standing.waiting[0]
    evidence = [*lines_about(scene, [number], standing), *call_lines(scene, standing)]
    sentence, enter = sentences.peerless(scene, standing), scene.names.entering([number])
    return _Told(VerdictKind.PARTNER, [number], sentence, evidence, enter, certainty_of([standing]))


def _doubtful(scene: Scene, root: Root) -> _Told:
    standing = root.standing
    evidence = [
        *lines_about(scene, standing.unheard, standing),
        *call_lines(scene, standing),
        *lacks(scene.matched.roster, scene.names),
    ]
    look = scene.names.looking(number for number in standing.unheard if number in scene.matched.roster)
    sentence = sentences.doubtful(scene, standing)
    return _Told(VerdictKind.UNKNOWN, standing.unheard, sentence, evidence, look)


def _complete(scene: Scene, root: Root) -> _Told:
    standing = root.standing
    ranks = sorted({*standing.waiting, *([standing.peer] if standing.peer is not None else [])})
    evidence = [
        *lines_about(scene, ranks, standing),
        *call_lines(scene, standing),
        *lacks(scene.matched.roster, scene.names),
    ]
    stores = sentences.stores_of(scene, ranks)
    if len(stores) > 1:
        # One host may have several names, but one port is not another.
        is_sure = len({store.rpartition(":")[2] for store, _ in stores}) > 1
        certainty = Certainty.SURE if is_sure else Certainty.LIKELY
        sentence = sentences.other_store(scene, standing, stores, certainty)
        look = scene.names.looking(some[0] for _, some in stores[:2])
        return _Told(VerdictKind.MISMATCH, stores[1][1], sentence, evidence, look, certainty)
    sentence, look = sentences.complete(scene, standing, ranks), scene.names.looking(ranks)
    return _Told(VerdictKind.UNKNOWN, ranks, sentence, evidence, look)


_TELLERS = {
    RootKind.MISSING: _missing,
    RootKind.CIRCLE: _circle,
    RootKind.HELD: _held,
    RootKind.CONFLICT: _conflict,
    RootKind.LONELY: _lonely,
    RootKind.PEERLESS: _peerless,
    RootKind.DOUBTFUL: _doubtful,
    RootKind.COMPLETE: _complete,
}

# -------------------------------------------------------------------------------------------------- ranks by themselves


def own_verdicts(scene: Scene, named: Collection[int], working: Collection[int], *, has_waits: bool) -> list[Verdict]:
    """Return a verdict for each kind of condition that ranks are in, apart from those that verdicts have ``named``.

    ``working`` ranks are in no wait. Where ``has_waits`` says that ranks wait in a collective, usual waits of ranks
    that nobody waits for are no news.
    """
    ranks: defaultdict[VerdictKind, list[int]] = defaultdict(list)
    well = all(one.rank.state is RankState.EXITED and one.rank.exit == 0 for one in scene.matched.roster.values())
    for number, condition in scene.conditions.items():
        is_news = condition.is_still or not (has_waits or number in working)
        if condition.kind is not None and is_news and _counts(scene, number, condition):
            ranks[VerdictKind.ENDED if well else condition.kind].append(number)
    dead, after = _first_to_die(scene, ranks.get(VerdictKind.DEAD, []))
    if after:
        ranks[VerdictKind.DEAD] = dead
    waiting = ranks.pop(VerdictKind.WAITING, [])
    circles = [one for one in rank_circles(scene) if set(one) <= set(waiting) and not set(one) & set(named)]
    in_circles = {number for circle in circles for number in circle}
    behind = {number: holder for number in waiting if (holder := scene.behind(number)) is not None}
    ends = [n for n in waiting if n not in in_circles and (n not in behind or not _is_told(scene, n, ranks, waiting))]
    ranks[VerdictKind.WAITING] = ends
    verdicts = [_circle_of_ranks(scene, circle, waiting) for circle in circles]
    for kind, numbers in sorted(ranks.items()):
        fresh = [number for number in numbers if number not in named]
        if fresh:
            followers = [number for number in waiting if number in behind and scene.last_behind(number) in fresh]
            verdict = _of_kind(scene, kind, fresh, [number for number in followers if number not in fresh])
            verdicts.append(_with_those_after(scene, verdict, after) if kind is VerdictKind.DEAD else verdict)
    return verdicts


def _is_told(scene: Scene, number: int, ranks: Mapping[VerdictKind, Sequence[int]], waiting: Sequence[int]) -> bool:
    """Tell whether the rank for which another one waits in the end is told itself."""
    last = scene.last_behind(number)
    return last != number and (last in waiting or any(last in numbers for numbers in ranks.values()))


def absent_verdict(scene: Scene, named: Collection[int]) -> list[Verdict]:
    """Return a verdict on the ranks that never connected, if there are such that no verdict has named."""
    roster = scene.matched.roster
    world = world_size(roster) or 0
    absent = [number for number in range(world) if number not in roster]
    if not absent or set(absent) <= set(named):
        return []
    sentence = sentences.absent(scene, absent, world)
    return [
        Verdict(
            kind=VerdictKind.ABSENT, job=scene.job, sentence=sentence, ranks=tuple(absent), certainty=Certainty.SURE
        )
    ]


def _circle_of_ranks(scene: Scene, circle: Sequence[int], waiting: Sequence[int]) -> Verdict:
    """Return the verdict on ranks each of which waits for what the next one has, such as the lock of a file."""
    certainty = scene.certainty(circle)
    followers = [n for n in waiting if n not in circle and scene.last_behind(n) in circle]
    return Verdict(
        kind=VerdictKind.DEADLOCK,
        job=scene.job,
        sentence=sentences.rank_circle(scene, circle, certainty),
        certainty=certainty,
        ranks=tuple(sorted(circle)),
        others=tuple(followers),
        age=max(scene.conditions[number].age or 0.0 for number in circle) or None,
        evidence=(*lines_about(scene, sorted(circle)), *lines_about(scene, followers)),
        next=scene.names.looking(circle),
    )


def _first_to_die(scene: Scene, numbers: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the ranks that have died by themselves, and those that a launcher has ended or that failed after them."""
    ranks = {number: scene.matched.roster[number].rank for number in numbers}
    kept = [rank.since for rank in ranks.values() if rank.state is RankState.STOPPED]
    if kept:
        # A rank that is kept after a crash has failed by itself.
        after = [n for n, rank in ranks.items() if rank.state is RankState.EXITED and rank.since > min(kept)]
        return [number for number in numbers if number not in after], after
    if any(rank.state is not RankState.EXITED for rank in ranks.values()):
        return list(numbers), []
    # Ranks whose collectives have lost one of them fail within milliseconds, with an exception.
    killed = [number for number, rank in ranks.items() if _ended_abruptly(rank)]
    by_themselves = killed or [number for number, rank in ranks.items() if rank.exit != -signal.SIGTERM]
    if not by_themselves:
        return list(numbers), []
    first = min(ranks[number].since for number in by_themselves)
    dead = [number for number in by_themselves if ranks[number].since <= first + AT_ONCE_SECONDS]
    return dead, [number for number in numbers if number not in dead]


def _ended_abruptly(rank: RankInfo) -> bool:
    is_killed = (rank.exit or 0) < 0 and rank.exit != -signal.SIGTERM
    return is_killed or rank.detail == WITHOUT_TRACEBACK


def _with_those_after(scene: Scene, verdict: Verdict, after: Sequence[int]) -> Verdict:
    if not after:
        return verdict
    return replace(verdict, evidence=(*verdict.evidence, "after that:", *lines_about(scene, after)))


def _counts(scene: Scene, number: int, condition: Condition) -> bool:
    rank = scene.matched.roster[number].rank
    if rank.state is RankState.EXITED:
        return rank.exit != 0 or rank.reason == DIED
    if condition.kind in (VerdictKind.DEADLOCK, VerdictKind.SUSPENDED) or rank.state is not RankState.RUNNING:
        return True
    return condition.age is not None and condition.age >= OLD_SECONDS


def _of_kind(scene: Scene, kind: VerdictKind, numbers: Sequence[int], followers: Sequence[int]) -> Verdict:
    first = scene.conditions[numbers[0]]
    certainty = scene.certainty(numbers)
    sentence = sentences.own(scene, kind, numbers, certainty)
    evidence = _lines(scene, numbers, sentence)
    if followers:
        evidence += ["behind them:", *lines_about(scene, followers)]
    deadlocked = [number for number in numbers if scene.conditions[number].threads]
    live = scene.matched.roster[numbers[0]].rank.state in LIVE_STATES
    command = scene.names.looking(numbers[:1], threads=True) if deadlocked and live else scene.names.entering(numbers)
    return Verdict(
        kind=kind,
        job=scene.job,
        sentence=sentence,
        certainty=certainty,
        ranks=tuple(numbers),
        others=tuple(followers),
        age=max((scene.conditions[number].age or 0.0 for number in numbers), default=0.0) or None,
        is_settled=kind is not VerdictKind.WAITING or first.is_still,
        evidence=tuple(evidence),
        next=command,
    )


def silence_verdict(scene: Scene) -> Verdict | None:
    """Return a verdict on the ranks that live and did not answer, None if all did."""
    # A condition tells why others are silent.
    silent = [
        number
        for number, one in scene.matched.roster.items()
        if _is_silent(one) and scene.conditions[number].kind is None
    ]
    if not silent:
        return None
    return _unknown(scene, sentences.silent(scene, silent), silent)


def _unknown(scene: Scene, sentence: str, ranks: Sequence[int], notes: Sequence[str] = ()) -> Verdict:
    return Verdict(
        kind=VerdictKind.UNKNOWN,
        job=scene.job,
        sentence=sentence,
        ranks=tuple(ranks),
        evidence=(*lines_about(scene, ranks), *notes, *lacks(scene.matched.roster, scene.names)),
        next=scene.names.looking(ranks),
    )


def _is_silent(one: RankEvidence) -> bool:
    return one.rank.state in LIVE_STATES and one.answer.kind is not Kind.VALUE


def unmoved_verdict(scene: Scene, unmoved: Collection[int], notes: Sequence[str]) -> Verdict:
    """Return the verdict that some ranks have not got on, and nothing tells what they wait for; ``notes`` say more."""
    numbers = sorted(unmoved)
    verdict = _unknown(scene, sentences.unmoved(scene, numbers, scene.moved), numbers, notes)
    has_ended = all(one.rank.state is RankState.EXITED for one in scene.matched.roster.values())
    return replace(verdict, kind=VerdictKind.ENDED) if has_ended else verdict
