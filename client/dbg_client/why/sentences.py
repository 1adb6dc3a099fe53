"""All sentences of verdicts, for somebody tired: the culprit first, two lines of a terminal at most. Pure.

A sentence that is too long for its lines leaves out where the rank is, then shortens why it does not come. What is made
from stacks says so by one word, `likely`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from dbg_client.views.ages import show_age
from dbg_client.views.naming import clip
from dbg_client.why.collective_matching import PendingCollective
from dbg_client.why.condition import main_wait
from dbg_client.why.conflicts import (
    Difference,
    certainty_of_difference,
    difference_of,
    is_parting,
    loop_left,
    place_of_call,
    sides,
    went_on,
)
from dbg_client.why.fitting import AGO, clipped, fitted, hedged
from dbg_client.why.moving import Movement
from dbg_client.why.roots import Root
from dbg_client.why.scene import Scene
from dbg_client.why.verdict import MAX_NAMES, Certainty, VerdictKind, agreeing, certainty_of, short_name, since
from dbg_client.why.wait_text import wait_text
from dbg_wire.errors import printable
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.evidence import WaitKind, What
from dbg_wire.records.ranks import RankState

MAX_REASONS = 2
"""Reasons of several missing ranks that a sentence names."""

MAX_SIDES = 3
"""Different calls of one collective that a sentence names."""

PATIENT_SECONDS = 60.0
"""Seconds for which ranks may wait for one that works, before it counts as missing all the same."""

_SEVERAL = {
    VerdictKind.DEAD: "have died or are lost",
    VerdictKind.ENDED: "have ended",
    VerdictKind.SUSPENDED: "are suspended",
    VerdictKind.DEADLOCK: "have threads that wait for each other",
    VerdictKind.STUCK: "are stuck in C code",
    VerdictKind.WAITING: "wait",
}

_SEVERAL_IN = {
    RankState.STOPPED: "stand in the debugger",
    RankState.LOST: "are lost: their connections are gone, and their processes may live",
    RankState.EXITED: "have died",
}
"""What several ranks do that are all in one of these states."""


# --------------------------------------------------------------------------------------------------------- collectives


def missing(scene: Scene, root: Root, certainty: Certainty) -> str:
    """Say who has not come to which collective, what keeps them, and who waits since when."""
    standing, culprits = root.standing, root.culprits
    what = short_name(standing)
    if all(_stands(scene, number) for number in culprits):
        crashed = all(scene.conditions[number].kind is VerdictKind.DEAD for number in culprits)
        stands = "have crashed and are kept" if crashed else "stand in the debugger"
        stands = scene.conditions[culprits[0]].text if len(culprits) == 1 else stands
        count = f"{len(standing.calls)} rank{'s wait' if len(standing.calls) > 1 else ' waits'}"
        them = agreeing(culprits, "it", "them")
        return scene.sentence(culprits, stands, rest=f"; {count} for {them} in {what}{since(standing.age)}")
    verb = hedged(f"{agreeing(culprits, 'has', 'have')} not come to {what}", certainty)
    return scene.sentence(culprits, verb, _why(scene, culprits, standing), f"; {_who_waits(standing)}")


def _stands(scene: Scene, number: int) -> bool:
    one, condition = scene.matched.roster.get(number), scene.conditions.get(number)
    is_stopped = one is not None and one.rank.state is RankState.STOPPED
    return is_stopped or (condition is not None and condition.is_stop)


def _who_waits(standing: PendingCollective) -> str:
    of, waiting = len(standing.group.numbers), len(standing.calls)
    who = f"{waiting} of {of} ranks wait" if waiting > 1 else f"rank {standing.waiting[0]} waits"
    return f"{who}{since(standing.age)}"


def _why(scene: Scene, culprits: Sequence[int], standing: PendingCollective | None) -> str:
    """Return why these ranks have not come, up to MAX_REASONS reasons with their ranks; empty if none is known."""
    reasons: defaultdict[str, list[int]] = defaultdict(list)
    for number in culprits:
        reasons[_reason(scene, number, standing)].append(number)
    known = sorted(reasons.items(), key=lambda reason: (-len(reason[1]), reason[1]))
    if len(known) == 1:
        text = known[0][0]
        if not text or text.startswith("its "):
            return text
        return f"it {text}" if len(culprits) == 1 else f"each {text}"
    known = [(text, numbers) for text, numbers in known if text]
    said = [
        f"{'each of ' * (len(numbers) > 1)}{scene.names.ranks(numbers)} {text}" for text, numbers in known[:MAX_REASONS]
    ]
    left = sum(len(numbers) for _, numbers in known[MAX_REASONS:])
    return "; ".join([*said, *([f"{left} more for other reasons"] if left else [])])


def _reason(scene: Scene, number: int, standing: PendingCollective | None) -> str:
    """Return what keeps a rank, as it moves or stands."""
    text = _with_error(scene, number)
    condition = scene.conditions.get(number)
    if condition is None or condition.is_still:
        return text
    if number not in scene.moved.working:
        return text or (f"its {condition.ended[-1]}" if condition.ended else _runs(scene, number))
    moves = number in scene.moved.moved | scene.moved.data | scene.moved.within
    does = _work_of(scene, number)
    age = standing.age if standing is not None else None
    hope = "; no hang so far" if moves or (age or 0.0) < PATIENT_SECONDS else ""
    return f"{does}{', moves' * moves}{hope}"


def _with_error(scene: Scene, number: int, certainty: Certainty | None = None) -> str:
    """Return what keeps a rank behind what its main thread handles, such as an error: a long text loses its end."""
    text, condition = hedged(scene.reason(number), certainty), scene.conditions.get(number)
    if condition is None or not condition.handles or condition.is_loop or condition.is_still:
        return text
    return f"{condition.handles}, and {text}" if text else condition.handles


def _runs(scene: Scene, number: int) -> str:
    main = main_wait(scene.matched.roster[number])
    return wait_text(main.does) if main is not None and main.kind is WaitKind.PYTHON else ""


def _work_of(scene: Scene, number: int) -> str:
    main = main_wait(scene.matched.roster[number])
    if main is not None and main.kind is WaitKind.NATIVE and number in scene.moved.computing | scene.moved.data:
        return wait_text(main.does.replace(what=What.COMPUTES))
    return scene.conditions[number].text or f"works{scene.place(number)}"


def no_partner(scene: Scene, root: Root, certainty: Certainty) -> str:
    """Say who leaves out the other half of a send or receive, what keeps it, and who waits."""
    standing, peer = root.standing, root.culprits[0]
    waiter = standing.waiting[0]
    elsewhere = scene.pending_of(peer)
    why = f"it is in {short_name(elsewhere)}" if elsewhere is not None else _why(scene, [peer], standing)
    verb = hedged(lacks_half(standing, waiter), certainty)
    place = f" in {short_name(standing)}" if standing.group.label or standing.sequence is not None else ""
    return scene.sentence([peer], verb, why, f"; rank {waiter} waits{place}{since(standing.age)}")


def lacks_half(standing: PendingCollective, waiter: int) -> str:
    """Say what the peer of a send or receive lacks; what was sent with another tag does not count."""
    (call,) = standing.calls.values()
    half = "send" if standing.is_receive else "receive"
    if call.tag is not None and call.tag >= 0:
        return f"has no {half} with tag {call.tag} for rank {waiter}"
    if call.tag is None and call.timeout is None:
        # Nobody has recorded it, and its tag can't be read.
        return f"is in no {half} for rank {waiter}"
    return f"has not sent to rank {waiter}" if standing.is_receive else f"does not receive from rank {waiter}"


def held(scene: Scene, root: Root, certainty: Certainty) -> str:
    """Say which rank waits in a collective for those that wait for what it has."""
    culprits, standing = root.culprits, root.standing
    holder = scene.last_behind(culprits[0])
    them = agreeing(culprits, "it", "them")
    texts = list(dict.fromkeys(scene.reason(number, 1) for number in culprits))
    rest = f"; rank {holder} waits for {them} in {short_name(standing)}{since(standing.age)}: a deadlock"
    if len(texts) == 1:
        each = "each of " * (len(culprits) > 1)
        subjects = [f"{each}{scene.names.described(culprits)}", f"{each}{scene.names.ranks(culprits)}"]
        return fitted(scene.job, subjects, hedged(texts[0], certainty), rest=rest)
    said = [f"rank {number} {scene.reason(number, 1)}" for number in culprits]
    wait = hedged("wait for what others have", certainty)
    return fitted(scene.job, [scene.names.ranks(culprits)], wait, "; ".join(said), rest)


def conflict(scene: Scene, standing: PendingCollective) -> str:
    """Say who calls another collective than most, or with another root or other data; who parts, if there is no most.

    Where calls were made in different places, it says so.
    """
    called = sides(standing)
    (usual, others), (what, numbers), *more = called
    there, here = (place_of_call(scene, standing, some) for some in (others, numbers))
    if there == here or not (is_parting(called) or (there and here)):
        there = here = ""
    if is_parting(called):
        return _parting(scene, standing, [(f"{usual}{there}", others), (f"{what}{here}", numbers), *more])
    group = f" of {printable(standing.group.title, 100)}" if standing.group.label else ""
    call, besides, loop = f"called {what}{here}", _besides(scene, numbers, others), loop_left(scene, numbers, others)
    if difference_of(standing) is not Difference.NAME:
        call, usual = f"passed {what} to {printable(standing.call, 80)}{group}{here}", f"passed {usual}"
    elif went_on(scene, standing, usual):
        be, they = agreeing(numbers, "is", "are"), agreeing(numbers, "it", "they")
        did, besides, there = (f"left the loop at {loop} for", "", "") if loop else ("went on to", besides, there)
        call = f"{be} one {usual}{group} behind: {they} {did} {what}{here}"
        usual = f"called #{standing.sequence}"
    else:
        call += f" as collective #{standing.sequence}{group}" if standing.sequence is not None else group
        usual = f"called {usual}"
    rest = "".join(f", {scene.names.ranks(some)} {other}" for other, some in more[: MAX_SIDES - 2])
    rest = f", where {scene.names.ranks(others)} {usual}{there}{rest}{_ago(standing)}"
    return scene.sentence(numbers, hedged(f"{call}{besides}", certainty_of_difference(standing)), rest=rest)


def _parting(scene: Scene, standing: PendingCollective, called: Sequence[tuple[str, list[int]]]) -> str:
    """Say where as many ranks do one thing as the other: nobody knows who is wrong."""
    sides = sorted(called, key=lambda side: side[1])[:MAX_SIDES]
    what, verbs = printable(standing.call, 80), ("passes", "pass")
    if difference_of(standing) is Difference.NAME:
        what, verbs = (
            f"collective{f' #{standing.sequence}' if standing.sequence is not None else ''}",
            ("calls", "call"),
        )
    who = f"ranks {' and '.join(clip(format_ranks(numbers), MAX_NAMES) for _, numbers in sides)}"
    group = f" of {printable(standing.group.title, 100)}" if standing.group.label else ""
    part = hedged("part", certainty_of_difference(standing))
    for besides in (True, False):
        said: list[str] = []
        for side, numbers in sides:
            verb = "" if said else f" {agreeing(numbers, *verbs)}"
            others = next(some for _, some in sides if some is not numbers)
            more = _besides(scene, numbers, others) if besides else ""
            said.append(f"{scene.names.ranks(numbers)}{verb} {side}{more}")
        sentence = fitted(scene.job, [who], f"{part} at {what}{group}{_ago(standing)}", ", ".join(said))
        if said[-1] in sentence:
            break
    return sentence


def _besides(scene: Scene, numbers: Sequence[int], others: Sequence[int]) -> str:
    """Say what else is known of who calls another collective than others: an error, or a loop that it has left."""
    first = scene.conditions.get(numbers[0])
    if first is not None and first.handles and len(numbers) == 1:
        return f" while it {first.handles}"
    loop = loop_left(scene, numbers, others)
    return f" behind the loop at {loop}" if loop else ""


def _ago(standing: PendingCollective) -> str:
    return f" {show_age(standing.age)} ago" if standing.age is not None and standing.age >= 1 else ""


def lonely(scene: Scene, standing: PendingCollective) -> str:
    """Say which rank waits in a group that no other has made."""
    verb = f"waits in {short_name(standing)}{since(standing.age)}, a group that no other rank has made"
    return scene.sentence(standing.waiting[:1], hedged(verb, certainty_of([standing])))


def circle(scene: Scene, standings: Sequence[PendingCollective], certainty: Certainty) -> str:
    """Say which ranks wait for each other in which collectives, or for a thread that has ended."""
    told = scene.ended_in(standings)
    age = since(max((one.age or 0.0 for one in standings), default=None))
    if told is not None:
        number, text = told
        awaiting = next(one for one in standings if number in one.missing)
        who = scene.names.ranks(awaiting.waiting)
        who_waits = f"{who} likely {agreeing(awaiting.waiting, 'waits', 'wait')} for it in {short_name(awaiting)}{age}"
        return fitted(scene.job, [f"{scene.names.ranks([number])}'s"], text, rest=f"; {who_waits}")
    pieces = []
    for index, standing in enumerate(standings[:MAX_SIDES]):
        wait = hedged(agreeing(standing.calls, "waits", "wait"), None if index else certainty)
        whom = scene.names.ranks(_awaited(standings, index))
        pieces.append(f"{'which ' if index else ''}{wait} in {short_name(standing)} for {whom}")
    if len(standings) > MAX_SIDES:
        pieces.append(f"and so on through {len(standings)} collectives")
    numbers, verb = standings[0].waiting, ", ".join(pieces)
    ring = {
        (one.name, (one.waiting[0] - one.missing[0]) % len(standings))
        for one in standings
        if one.has_peer and one.missing
    }
    if len(standings) > MAX_SIDES and ring in ({(standings[0].name, 1)}, {(standings[0].name, len(standings) - 1)}):
        numbers = tuple(sorted(number for one in standings for number in one.waiting))
        whom = "before" if (standings[0].name, 1) in ring else "behind"
        verb = f"each {hedged(f'wait in {standings[0].name}', certainty)} for the rank {whom}"
    return fitted(scene.job, [scene.names.ranks(numbers)], verb, rest=f"{age}{_circles_end(standings)}")


def _awaited(standings: Sequence[PendingCollective], index: int) -> list[int]:
    following = standings[(index + 1) % len(standings)]
    here = standings[index]
    return [number for number in here.missing if number in following.calls] or list(here.missing)


def _circles_end(standings: Sequence[PendingCollective]) -> str:
    if all(standing.has_peer for standing in standings):
        return ": nobody sends" if all(one.is_receive for one in standings) else ": nobody takes the other's call"
    # Only the calls of one group have one order: of two groups, one may never be called.
    is_one_group = len({id(standing.group) for standing in standings}) == 1
    return ": they call them in different orders" if is_one_group else ""


def peerless(scene: Scene, standing: PendingCollective) -> str:
    """Say that nobody is in the other half of a send or receive for anybody."""
    other = "sends" if standing.is_receive else "receives"
    verb = f"waits in {short_name(standing)}{since(standing.age)}, and no rank of the group {other}"
    verb = hedged(verb, certainty_of([standing]))
    return scene.sentence(standing.waiting[:1], verb, rest="; who should is not known")


def doubtful(scene: Scene, standing: PendingCollective) -> str:
    """Say that ranks which did not tell may be missing."""
    silent = standing.unheard
    verb = f"did not tell of {short_name(standing)}, so that who is missing can't be told"
    return scene.sentence(silent, verb, rest=f"; {_who_waits(standing)}")


def stores_of(scene: Scene, ranks: Sequence[int]) -> list[tuple[str, list[int]]]:
    """Return the stores at which ranks wait for each other to make torch's first group, where most wait first."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for number in ranks:
        main = main_wait(scene.matched.roster[number]) if number in scene.matched.roster else None
        if main is not None and main.does.address:
            found[main.does.address].append(number)
    return sorted(found.items(), key=lambda one: (-len(one[1]), one[1]))


def other_store(
    scene: Scene, standing: PendingCollective, stores: Sequence[tuple[str, list[int]]], certainty: Certainty
) -> str:
    """Say which ranks wait for the others at another store than most: they were given another address."""
    (usual, most), (other, few), *_ = stores
    verb = f"{agreeing(few, 'waits', 'wait')} in {short_name(standing)} at the store {other}"
    wait = agreeing(most, "waits", "wait")
    rest = f", where {scene.names.ranks(most)} {wait} at the store {usual}{since(standing.age)}"
    return scene.sentence(few, hedged(verb, certainty), rest=rest)


def complete(scene: Scene, standing: PendingCollective, ranks: Sequence[int]) -> str:
    """Say that nobody is missing from a collective that does not go on."""
    who = {1: scene.names.described(ranks), 2: f"both ranks {ranks[0]}, {ranks[-1]}"}.get(
        len(ranks), f"all {len(ranks)} ranks"
    )
    are = agreeing(ranks, "is", "are")
    if standing.group.is_inferred:
        end = ", as their stacks say; which call of which group it is they do not tell"
    elif standing.sequence is None and not standing.has_peer:
        end = "; nobody is seen to be missing, but which of several equal calls each is in is not known"
    elif len(ranks) == 1:
        end = "; it is the only one in the group, so that nobody is missing"
    else:
        end = "; nobody is missing, so that it is the network or a device that does not go on"
    return fitted(scene.job, [who], f"{are} in {short_name(standing)}{since(standing.age)}{end}")


# -------------------------------------------------------------------------------------------------- ranks by themselves


def own(scene: Scene, kind: VerdictKind, numbers: Sequence[int], certainty: Certainty) -> str:
    """Say what ranks do by themselves, that nobody is known to wait for."""
    if len(numbers) == 1:
        return scene.sentence(numbers, f"{_with_error(scene, numbers[0], certainty)}{_how_long(scene, numbers[0])}")
    states = {scene.matched.roster[number].rank.state for number in numbers}
    do = _SEVERAL_IN.get(next(iter(states))) if len(states) == 1 and kind is not VerdictKind.ENDED else None
    # A rank that is kept after a crash stands in the debugger as well.
    do = "have crashed and are kept" if kind is VerdictKind.DEAD and states == {RankState.STOPPED} else do
    if do is not None and states != {RankState.EXITED}:
        return fitted(scene.job, [scene.names.ranks(numbers)], do)
    # The deaths of one cause differ by a moment.
    texts = {AGO.sub("", _with_error(scene, number, certainty)) for number in numbers}
    if len(texts) == 1:
        return fitted(scene.job, [f"each of {scene.names.ranks(numbers)}"], texts.pop())
    reasons = _why(scene, numbers, None)
    return fitted(scene.job, [scene.names.ranks(numbers)], hedged(do or _SEVERAL[kind], certainty), reasons)


def _how_long(scene: Scene, number: int) -> str:
    condition = scene.conditions[number]
    rank = scene.matched.roster[number].rank
    if condition.age is None or condition.age < 1 or rank.state not in (RankState.RUNNING, RankState.STOPPED):
        return ""
    # Behind a clause, as in "that nobody writes to", the time would be read as the clause's.
    comma = "," if _CLAUSE.search(scene.reason(number)) else ""
    return "" if condition.is_age_told else f"{comma} for {show_age(condition.age)}"


_CLAUSE = re.compile(r" that |\bwhich ")


def rank_circle(scene: Scene, numbers: Sequence[int], certainty: Certainty) -> str:
    """Say which ranks each wait for what the next one has."""
    said = [f"rank {number} {scene.reason(number, 1)}" for number in numbers]
    verb = hedged("wait for each other", certainty)
    return fitted(scene.job, [scene.names.ranks(numbers)], verb, "; ".join(said))


def absent(scene: Scene, numbers: Sequence[int], world: int) -> str:
    """Say which ranks have never connected."""
    have, count = agreeing(numbers, "has", "have"), len(scene.matched.roster)
    return fitted(scene.job, [scene.names.ranks(numbers)], f"{have} never connected; {count} of {world} ranks have")


def silent(scene: Scene, numbers: Sequence[int]) -> str:
    """Say which ranks live and did not answer."""
    of = f"{len(numbers)} of {len(scene.matched.roster)} ranks did not answer"
    return clipped(scene.job, "", f"{of}, so that what they do can't be told: {scene.names.ranks(numbers)}")


def unmoved(scene: Scene, numbers: Sequence[int], moved: Movement) -> str:
    """Say which ranks have not got on, where nothing tells what they wait for."""
    if not numbers and all(one.rank.state is RankState.EXITED for one in scene.matched.roster.values()):
        return f"the job has ended: {len(scene.matched.roster)} of its ranks have exited"
    if not numbers:
        return "no rank has told anything, so that it can't be told whether the job hangs"
    stood = min((scene.matched.roster[number].answer.age or 0.0 for number in numbers), default=0.0)
    looked = f" in {moved.seconds:.1f} s" if moved.seconds else ""
    looked = f" in {show_age(stood)}" if moved.seconds and stood > moved.seconds else looked
    works = moved.working | moved.awake
    still = [number for number in numbers if number not in works]
    pieces = []
    if still:
        have = agreeing(still, "has", "have")
        pieces.append(f"{scene.names.described(still)} {have} not moved{looked}, and what for can't be told")
    if len(still) < len(numbers):
        pieces.append(_worked(scene, [number for number in numbers if number in works], moved))
    others = len(scene.matched.roster.keys() & moved.moved)
    if others:
        pieces.append(f"{others} other{'s move' if others > 1 else ' moves'}")
    return clipped(scene.job, "", "; ".join(pieces))


def _worked(scene: Scene, numbers: Sequence[int], moved: Movement) -> str:
    """Say of ranks that have worked at one place of their code that this may be a hang all the same."""
    end = f"; whether {agreeing(numbers, 'it gets', 'they get')} on can't be told"
    texts = {_work_of(scene, number) for number in numbers}
    who = scene.names.described(numbers) if len(numbers) == 1 else f"each of {scene.names.ranks(numbers)}"
    if len(texts) == 1:
        return f"{who} {texts.pop()}{end}"
    ways = (("computed", moved.computing), ("read or wrote data", moved.data), ("moved in library code", moved.within))
    did = next((way for way, some in ways if set(numbers) <= some), "worked")
    return f"{scene.names.ranks(numbers)} {did} in {moved.seconds:.1f} s at one place of their code{end}"


def busy(moved: Movement, what: str) -> str:
    """Say that all ranks get on."""
    return f"everybody is busy: in {moved.seconds:.1f} s {what}"


def working(scene: Scene, root: Root) -> str:
    """Say of ranks for which others wait, and which work, that it is no hang so far; or that a collective goes on."""
    if root.culprits:
        return missing(scene, root, certainty_of([root.standing]))
    return fitted(scene.job, [short_name(root.standing)], f"goes on{since(root.standing.age)}: its ranks exchange data")
