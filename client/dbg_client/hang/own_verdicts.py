"""Verdicts on what ranks do by themselves, and on what can not be told of silent ones. Pure."""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

from dbg_client.core.process_groups import RankEvidence, world_size
from dbg_client.hang.collective_verdicts import Scene
from dbg_client.hang.condition import MAX_TEXT, Condition
from dbg_client.hang.moving import Movement
from dbg_client.hang.verdict import Verdict, VerdictKind
from dbg_client.views.waits import show_age
from dbg_wire.errors import printable
from dbg_wire.messages import Kind
from dbg_wire.records.ranks import LIVE_STATES, RankState

OLD_SECONDS = 5.0
"""Seconds at one instruction, or in one collective, after which that is no part of usual work."""

AT_ONCE_SECONDS = 0.1
"""Seconds between the deaths of ranks that have died of the same."""

MAX_CIRCLE = 4
"""Ranks of a circle that a sentence tells of one by one."""

_SEVERAL_IN = {
    RankState.STOPPED: "stand in the debugger",
    RankState.LOST: "are lost: their connections are gone, and their processes may live",
    RankState.EXITED: "have died",
}
"""What several ranks do that are all in one of these states."""

_SEVERAL = {
    VerdictKind.DEAD: "have died or are lost",
    VerdictKind.SUSPENDED: "are suspended",
    VerdictKind.DEADLOCK: "have threads that wait for each other",
    VerdictKind.STUCK: "are stuck in C code",
    VerdictKind.WAITING: "wait",
}


def own_verdicts(
    scene: Scene, culprits: Collection[int], working: Collection[int], *, has_waits: bool
) -> list[Verdict]:
    """Return a verdict for each kind of condition that ranks are in.

    ``culprits`` are the ranks that a verdict on a collective has named. ``working`` ranks are in no wait. Where
    ``has_waits`` says that ranks wait in a collective, usual waits of ranks that nobody waits for are no news.
    """
    ranks: defaultdict[VerdictKind, list[int]] = defaultdict(list)
    for number, condition in scene.conditions.items():
        if condition.kind is None or not _counts(scene, number, condition):
            continue
        if number in culprits or condition.is_still or not (has_waits or number in working):
            ranks[condition.kind].append(number)
    dead, after = _first_to_die(scene, ranks.get(VerdictKind.DEAD, []))
    if after:
        ranks[VerdictKind.DEAD] = dead
    circles = _circles(scene, ranks.get(VerdictKind.WAITING, []), culprits)
    in_circles = {number for circle in circles for number in circle}
    ranks[VerdictKind.WAITING] = [number for number in ranks[VerdictKind.WAITING] if number not in in_circles]
    verdicts = [_verdict(scene, kind, numbers, culprits) for kind, numbers in sorted(ranks.items()) if numbers]
    verdicts += [_circle_verdict(scene, circle) for circle in circles]
    return [_with_those_after(scene, one, after) if one.kind is VerdictKind.DEAD else one for one in verdicts]


def absent_verdict(scene: Scene, culprits: Collection[int]) -> list[Verdict]:
    """Return a verdict on the ranks that never connected, if there are such."""
    roster = scene.matched.roster
    world = world_size(roster)
    absent = [number for number in range(world or 0) if number not in roster]
    if not absent:
        return []
    have = "has" if len(absent) == 1 else "have"
    sentence = f"{scene.names.ranks(absent)} {have} never connected; {len(roster)} of {world} ranks have"
    verdict = Verdict(
        kind=VerdictKind.ABSENT,
        job=scene.job,
        sentence=sentence,
        ranks=tuple(absent),
        is_told=culprits_hold(culprits, absent),
    )
    return [verdict]


def _circles(scene: Scene, numbers: Sequence[int], culprits: Collection[int]) -> list[list[int]]:
    """Return the circles of ranks each of which waits for what the next one has, without those told of already."""
    found: list[list[int]] = []
    for number in numbers:
        path: list[int] = []
        at: int | None = number
        while at is not None and at in numbers and at not in culprits and at not in path:
            path.append(at)
            at = scene.holder(at)
        if at == number and len(path) > 1 and number == min(path):
            found.append(path)
    return found


def _circle_verdict(scene: Scene, circle: Sequence[int]) -> Verdict:
    """Return the verdict on ranks each of which waits for what the next one has, such as the lock of a file."""
    said = [
        f"rank {number} {scene.conditions[number].text}, and that is rank {scene.holder(number)}"
        for number in circle[:MAX_CIRCLE]
    ]
    sentence = f"{scene.names.ranks(circle)} wait for each other: {'; '.join(said)}"
    command = scene.names.looking(circle)
    return Verdict(
        kind=VerdictKind.DEADLOCK,
        job=scene.job,
        sentence=sentence,
        ranks=tuple(sorted(circle)),
        age=max(scene.conditions[number].age or 0.0 for number in circle) or None,
        evidence=tuple(scene.lines(sorted(circle), is_cause_told=True)),
        next=command[0],
        purpose=command[1],
    )


def _first_to_die(scene: Scene, numbers: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the ranks that have died by themselves, and those that a launcher has ended or that failed after them."""
    ranks = {number: scene.matched.roster[number].rank for number in numbers}
    if any(rank.state is not RankState.EXITED for rank in ranks.values()):
        return list(numbers), []
    # Ranks whose collectives have lost one of them fail within milliseconds, with an exception.
    killed = [number for number, rank in ranks.items() if (rank.exit or 0) < 0 and rank.exit != -signal.SIGTERM]
    by_themselves = killed or [number for number, rank in ranks.items() if rank.exit != -signal.SIGTERM]
    if not by_themselves:
        return list(numbers), []
    first = min(ranks[number].since for number in by_themselves)
    dead = [number for number in by_themselves if ranks[number].since <= first + AT_ONCE_SECONDS]
    return dead, [number for number in numbers if number not in dead]


def _with_those_after(scene: Scene, verdict: Verdict, after: Sequence[int]) -> Verdict:
    if not after:
        return verdict
    return replace(verdict, evidence=(*verdict.evidence, "after that:", *scene.lines(after)))


def culprits_hold(culprits: Collection[int], numbers: Collection[int]) -> bool:
    """Tell whether a verdict on a collective has named all of these ranks, and so has told what they do."""
    return bool(numbers) and set(numbers) <= set(culprits)


def _counts(scene: Scene, number: int, condition: Condition) -> bool:
    rank = scene.matched.roster[number].rank
    if rank.state is RankState.EXITED:
        return rank.exit != 0
    if condition.kind in (VerdictKind.DEADLOCK, VerdictKind.SUSPENDED) or rank.state is not RankState.RUNNING:
        return True
    return condition.age is not None and condition.age >= OLD_SECONDS


def _verdict(scene: Scene, kind: VerdictKind, numbers: Sequence[int], culprits: Collection[int]) -> Verdict:
    first = scene.conditions[numbers[0]]
    if len(numbers) == 1:
        sentence = f"{scene.names.described(numbers)} {first.text}{_how_long(scene, numbers[0])}"
    else:
        states = {scene.matched.roster[number].rank.state for number in numbers}
        own = _SEVERAL_IN.get(next(iter(states))) if len(states) == 1 else None
        sentence = f"{scene.names.ranks(numbers)} {own or _SEVERAL[kind]}"
    evidence = scene.lines(numbers, is_cause_told=len(numbers) == 1)
    deadlocked = kind is VerdictKind.DEADLOCK
    live = scene.matched.roster[numbers[0]].rank.state in LIVE_STATES
    command = scene.names.looking(numbers[:1], threads=True) if deadlocked and live else scene.names.entering(numbers)
    return Verdict(
        kind=kind,
        job=scene.job,
        sentence=sentence,
        ranks=tuple(numbers),
        age=max((scene.conditions[number].age or 0.0 for number in numbers), default=0.0) or None,
        evidence=tuple(evidence),
        next=command[0],
        purpose=command[1],
        is_told=culprits_hold(culprits, numbers),
        is_certain=kind is not VerdictKind.WAITING or first.is_still,
    )


def _how_long(scene: Scene, number: int) -> str:
    condition = scene.conditions[number]
    rank = scene.matched.roster[number].rank
    if condition.age is None or condition.age < 1 or rank.state not in (RankState.RUNNING, RankState.STOPPED):
        return ""
    is_said = condition.kind in (VerdictKind.SUSPENDED, VerdictKind.DEADLOCK)
    return "" if is_said else f" for {show_age(condition.age)}"


MAX_LACKS = 4
"""Different lacks of libraries that are told."""

NO_LIBRARY = "no library that tells of collectives is loaded in these ranks, so that their stacks alone count"


def silent_ranks(scene: Scene) -> list[int]:
    """Return the ranks that live and have not answered."""
    return [number for number, one in scene.matched.roster.items() if _is_silent(one)]


def silence_verdict(scene: Scene) -> Verdict | None:
    """Return a verdict on the ranks that live and did not answer, None if all did."""
    # A condition tells why others are silent.
    silent = [number for number in silent_ranks(scene) if scene.conditions[number].kind is None]
    if not silent:
        return None
    of = f"{len(silent)} of {len(scene.matched.roster)} ranks did not answer"
    sentence = f"{of}, so that what they do can't be told: {scene.names.ranks(silent)}"
    command = scene.names.looking(silent)
    return Verdict(
        kind=VerdictKind.UNKNOWN,
        job=scene.job,
        sentence=sentence,
        ranks=tuple(silent),
        evidence=tuple(scene.lines(silent)),
        next=command[0],
        purpose=command[1],
    )


def unmoved_verdict(scene: Scene, unmoved: Collection[int], moved: Movement, notes: Sequence[str]) -> Verdict:
    """Return the verdict that some ranks have not got on, and nothing tells what they wait for; ``notes`` say more."""
    numbers = sorted(unmoved)
    looked = f" in {moved.seconds:.1f} s" if moved.seconds else ""
    still = [number for number in numbers if number not in moved.working]
    pieces = []
    if still:
        have = "has" if len(still) == 1 else "have"
        pieces.append(f"{scene.names.described(still)} {have} not moved{looked}, and what for can't be told")
    if len(still) < len(numbers):
        pieces.append(_working(scene, [number for number in numbers if number in moved.working], moved, looked))
    others = len(scene.matched.roster.keys() & moved.moved)
    if others:
        pieces.append(f"{others} other{'s move' if others > 1 else ' moves'}")
    sentence = "; ".join(pieces)
    if not numbers and all(one.rank.state is RankState.EXITED for one in scene.matched.roster.values()):
        sentence = f"the job has ended: {len(scene.matched.roster)} of its ranks have exited"
    elif not numbers:
        sentence = "no rank has told anything, so that it can't be told whether the job hangs"
    command = scene.names.looking(numbers)
    return Verdict(
        kind=VerdictKind.UNKNOWN,
        job=scene.job,
        sentence=sentence,
        ranks=tuple(numbers),
        evidence=(*scene.lines(numbers), *notes, *lacks(scene)),
        next=command[0],
        purpose=command[1],
    )


def _working(scene: Scene, numbers: Sequence[int], moved: Movement, looked: str) -> str:
    """Say of ranks that have worked at one place of their code that this may be a hang all the same."""
    ways = (("computed", moved.computing), ("read or wrote data", moved.data), ("moved in library code", moved.within))
    did = next((way for way, some in ways if set(numbers) <= some), "worked")
    whose, get = ("its", "it gets") if len(numbers) == 1 else ("their", "they get")
    where = f"at one place of {whose} code, and whether {get} on can't be told"
    return f"{scene.names.described(numbers)} {did}{looked} {where}"


def lacks(scene: Scene) -> list[str]:
    """Return a line for each thing that libraries can't tell of collectives, with the ranks in which it is so."""
    ranks: defaultdict[str, list[int]] = defaultdict(list)
    bare = []
    for number, one in scene.matched.roster.items():
        if one.evidence is None:
            continue
        if not one.evidence.sources and not one.evidence.groups:
            bare.append(number)
        for source in one.evidence.sources:
            if source.lack:
                version = f" {printable(source.version, 40)}" if source.version else ""
                ranks[f"{source.library}{version}: {printable(source.lack, 2 * MAX_TEXT)}"].append(number)
    everybody = len(scene.matched.roster)
    lines = [
        lack if len(numbers) == everybody else f"{scene.names.ranks(numbers)}: {lack}"
        for lack, numbers in sorted(ranks.items())[:MAX_LACKS]
    ]
    if bare and len(bare) == everybody:
        lines.append(NO_LIBRARY)
    return lines


def _is_silent(one: RankEvidence) -> bool:
    return one.rank.state in LIVE_STATES and one.answer.kind is not Kind.VALUE
