"""What can not be told, and why: silent ranks, libraries that keep no record, ranks that do not move. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from dbg_client.core.rank_evidence import RankEvidence
from dbg_client.hang.collective_verdicts import Scene
from dbg_client.hang.condition import MAX_TEXT
from dbg_client.hang.moving import Movement
from dbg_client.hang.verdict import Verdict, VerdictKind
from dbg_wire.errors import printable
from dbg_wire.messages import Kind
from dbg_wire.records.ranks import LIVE_STATES, RankState

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
