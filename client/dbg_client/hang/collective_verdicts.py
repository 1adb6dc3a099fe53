"""Verdicts on collectives: somebody has not come, calls differ, partners are missing, or all are there. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from dbg_client.core.collective_matching import Matched, PendingCollective
from dbg_client.hang.causes import Cause, Causes, named_differently, payload
from dbg_client.hang.condition import Condition, rank_lines, thread_lines
from dbg_client.hang.verdict import (
    NamedRanks,
    Verdict,
    VerdictKind,
    full_name,
    other_roots,
    payload_of,
    short_name,
    since,
    time_left,
)
from dbg_client.views.waits import tag_of
from dbg_wire.errors import printable
from dbg_wire.records.ranks import RankState

MAX_ALSO = 3
"""Further collectives that a line of evidence names."""

MAX_DEADLOCKS = 4
"""Ranks whose deadlocked threads are told of one by one."""

MAX_REASONS = 3
"""Reasons of several missing ranks that a sentence names."""

MAX_SIDES = 4
"""Different calls of one collective that a sentence names."""

OTHER_TAGS = "a send with another tag that has ended would not be seen: no record is kept of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that the verdicts on one run are made from."""

    matched: Matched
    conditions: Mapping[int, Condition]
    names: NamedRanks

    @property
    def job(self) -> str:
        """Return the name of the job."""
        return self.matched.run[0]

    def lines(
        self,
        numbers: Sequence[int],
        standing: PendingCollective | None = None,
        *,
        is_cause_told: bool = False,
        told: Sequence[str] = (),
    ) -> list[str]:
        """Return the lines of evidence about these ranks, then deadlocked threads and what the kernel tells.

        Threads that have ended follow, apart from those that the sentence has ``told``.
        """
        group = standing.group if standing is not None else None
        conditions = {} if is_cause_told else self.conditions
        lines = rank_lines(numbers, self.matched.roster, conditions, group, self._waits(standing))
        for number in numbers[:MAX_DEADLOCKS]:
            if number in self.conditions:
                condition = self.conditions[number]
                lines += thread_lines(condition)
                notes = [condition.note, *condition.ended]
                lines += [f"rank {number}: {note}" for note in notes if note and note not in told]
        return lines

    def holder(self, number: int) -> int | None:
        """Return the rank that has what a rank waits for, None if none is known to have it."""
        condition, one = self.conditions.get(number), self.matched.roster.get(number)
        if condition is None or condition.holder is None or one is None:
            return None
        place = (one.rank.host, condition.holder)
        # Containers of one host may count their processes each for itself.
        found = [other for other, each in self.matched.roster.items() if (each.rank.host, each.rank.pid) == place]
        return found[0] if len(found) == 1 else None

    def is_held_up_by(self, number: int, others: Collection[int]) -> bool:
        """Tell whether a rank waits, perhaps through what further ranks hold, for what one of the others has."""
        seen: set[int] = set()
        holder = self.holder(number)
        while holder is not None and holder not in seen and holder not in others:
            seen.add(holder)
            holder = self.holder(holder)
        return holder in others

    def _waits(self, told: PendingCollective | None) -> dict[int, str]:
        """Return what each rank waits in, apart from what the sentence has told."""
        found: dict[int, str] = {}
        for standing in self.matched.standings:
            if standing is not told:
                for number in standing.calls:
                    found.setdefault(number, short_name(standing))
        return found


def collective_verdicts(scene: Scene, causes: Causes) -> list[tuple[Verdict, tuple[PendingCollective, ...]]]:
    """Return the verdicts on a run's collectives, each with the collectives that it is about."""
    found: list[tuple[Verdict, tuple[PendingCollective, ...]]] = []
    for cause in causes.missing:
        verdict = _no_partner(scene, cause) if cause.standing.has_peer else _missing(scene, cause)
        found.append((verdict, (cause.standing,)))
    found += [(_conflict(scene, standing), (standing,)) for standing in causes.conflicts]
    found += [(_lonely(scene, standing), (standing,)) for standing in causes.lonely]
    found += [(_circle(scene, circle), circle) for circle in causes.circles]
    found += [(_peerless(scene, standing), (standing,)) for standing in causes.peerless]
    found += [(_doubtful(scene, standing), (standing,)) for standing in causes.doubtful]
    found += [(_complete(scene, standing), (standing,)) for standing in causes.complete]
    return found


def _about(
    scene: Scene, kind: VerdictKind, sentence: str, standing: PendingCollective, ranks: Sequence[int]
) -> Verdict:
    others = tuple(number for number in standing.waiting if number not in ranks)
    return Verdict(
        kind=kind,
        job=scene.job,
        sentence=sentence,
        ranks=tuple(sorted(ranks)),
        others=others,
        group=standing.group.label or None,
        collective=standing.name or None,
        sequence=standing.sequence,
        age=standing.age,
    )


def _with(verdict: Verdict, evidence: Sequence[str], command: tuple[str | None, str]) -> Verdict:
    return replace(verdict, evidence=tuple(evidence), next=command[0], purpose=command[1])


def _who_waits(standing: PendingCollective) -> str:
    of = len(standing.group.numbers)
    waiting = len(standing.calls)
    return f"{waiting} of {of} ranks wait" if waiting > 1 or of > 2 else f"rank {standing.waiting[0]} waits"


def _missing(scene: Scene, cause: Cause) -> Verdict:
    standing, culprits = cause.standing, cause.culprits
    who = scene.names.described(culprits)
    have = "has" if len(culprits) == 1 else "have"
    inferred = ", as their stacks say" if standing.group.is_inferred else ""
    wait = f"{_who_waits(standing)} in {full_name(standing)}{since(standing.age)}{inferred}"
    stopped = [number for number in culprits if _is_stopped(scene, number)]
    if len(stopped) == len(culprits):
        stand = scene.conditions[culprits[0]].text if len(culprits) == 1 else "stand in the debugger"
        them = "it" if len(culprits) == 1 else "them"
        count = f"{len(standing.calls)} rank{'s wait' if len(standing.calls) > 1 else ' waits'}"
        sentence = f"{who} {stand}; {count} for {them} in {full_name(standing)}{since(standing.age)}{inferred}"
    else:
        why = _common_cause(scene, culprits)
        sentence = f"{wait}; {who} {have} not come{f': {why}' if why else ''}{_held_by_rank(scene, culprits)}"
    circle = bool(culprits) and all(scene.is_held_up_by(number, standing.calls) for number in culprits)
    if circle:
        sentence += ": they wait for each other"
    lines = scene.lines(culprits, standing, is_cause_told=len(culprits) == 1)
    evidence = [*lines, *_others(scene, cause), *other_roots(standing), *time_left(standing)]
    kind = VerdictKind.DEADLOCK if circle else VerdictKind.MISSING
    return _with(_about(scene, kind, sentence, standing, culprits), evidence, scene.names.entering(culprits))


def _held_by_rank(scene: Scene, numbers: Sequence[int]) -> str:
    """Return which rank the process is for whose lock or pipe all of these ranks wait; empty if it is none."""
    holders = {scene.holder(number) for number in numbers}
    holder = holders.pop() if len(holders) == 1 else None
    if holder is None or holder in numbers:
        return ""
    texts = {scene.conditions[number].text for number in numbers}
    return f", and that is rank {holder}" if len(texts) == 1 else f"; rank {holder} has what each of them waits for"


def _is_stopped(scene: Scene, number: int) -> bool:
    one = scene.matched.roster.get(number)
    return one is not None and one.rank.state is RankState.STOPPED


def _common_cause(scene: Scene, culprits: Sequence[int]) -> str:
    """Return why these ranks have not come, up to MAX_REASONS reasons with their ranks; empty if none is known."""
    if not any(number in scene.matched.roster for number in culprits):
        return "it has never connected" if len(culprits) == 1 else "they have never connected"
    if len(culprits) == 1:
        return scene.conditions[culprits[0]].cause
    reasons: defaultdict[str, list[int]] = defaultdict(list)
    for number in culprits:
        condition = scene.conditions.get(number)
        text = condition.text if condition is not None else "has never connected"
        if text:
            reasons[text].append(number)
    if list(reasons.values()) == [list(culprits)]:
        return f"each {next(iter(reasons))}"
    known = sorted(reasons.items(), key=lambda reason: (-len(reason[1]), reason[1]))
    said = [
        f"{'each of ' * (len(numbers) > 1)}{scene.names.ranks(numbers)} {text}" for text, numbers in known[:MAX_REASONS]
    ]
    left = sum(len(numbers) for _, numbers in known[MAX_REASONS:])
    return "; ".join([*said, *([f"{left} more for other reasons"] if left else [])])


def _others(scene: Scene, cause: Cause) -> list[str]:
    """Tell of the silent members, and of the collectives that wait for the same ranks or behind them."""
    lines = []
    silent = [number for number in cause.standing.unheard if number not in cause.culprits]
    if silent:
        lines.append(f"{scene.names.ranks(silent)} did not tell of the group and may be missing, too")
    later = [number for number in cause.standing.missing if number not in cause.culprits]
    if later:
        lines.append(f"{scene.names.ranks(later)} {'has' if len(later) == 1 else 'have'} not come either")
    for what, standings in (("for the same", cause.also), ("behind them", cause.behind)):
        if standings:
            named = ", ".join(short_name(one) for one in standings[:MAX_ALSO])
            more = f" and {len(standings) - MAX_ALSO} more" if len(standings) > MAX_ALSO else ""
            ranks = {number for one in standings for number in one.calls}
            wait = "waits" if len(ranks) == 1 else "wait"
            lines.append(f"{scene.names.ranks(ranks)} {wait} {what} in {named}{more}")
    return lines


def _sides(standing: PendingCollective) -> list[tuple[str, list[int]]]:
    """Return the different calls of one collective with their ranks, the usual one first."""
    by_name = named_differently(standing)
    sides: defaultdict[str, list[int]] = defaultdict(list)
    for number, call in sorted(standing.all_calls.items()):
        what = call.name or "another collective"
        if not by_name:
            if payload(standing, number) == ("", ""):
                continue
            shapes = f" {call.shapes}" if call.shapes else ""
            alone = payload_of(_alone(standing, number))
            what = f"{alone}{shapes}" if call.size is not None else alone
        sides[printable(what, 120)].append(number)
    return sorted(sides.items(), key=lambda side: (-len(side[1]), side[1][0]))


def _alone(standing: PendingCollective, number: int) -> PendingCollective:
    return replace(standing, calls={number: standing.all_calls[number]}, finished={})


def _conflict(scene: Scene, standing: PendingCollective) -> Verdict:
    sides = _sides(standing)
    culprits = sorted(number for _, numbers in sides[1:] for number in numbers)
    by_name = named_differently(standing)
    said = [
        f"{scene.names.ranks(numbers)} {'is' if len(numbers) == 1 else 'are'} in {what}"
        if by_name
        else f"{what} in {scene.names.ranks(numbers)}"
        for what, numbers in sides[:MAX_SIDES]
    ]
    group = f" of group {printable(standing.group.label, 100)}" if standing.group.label else ""
    if by_name:
        number = f"collective #{standing.sequence}" if standing.sequence is not None else "a collective"
        sentence = f"ranks have called different collectives as {number}{group}{since(standing.age)}: {', '.join(said)}"
    else:
        call = printable(standing.call, 80)
        sentence = f"ranks exchange different data in {call}{group}{since(standing.age)}: {'; '.join(said)}"
    evidence = [*scene.lines(standing.waiting, standing)]
    finished = sorted(set(standing.finished) - set(standing.calls))
    if finished:
        have = "has" if len(finished) == 1 else "have"
        evidence.append(f"{scene.names.ranks(finished)} {have} finished it and gone on")
    if standing.missing:
        evidence.append(f"{scene.names.described(standing.missing)} has come to neither")
    evidence += time_left(standing)
    kind = VerdictKind.ORDER if by_name else VerdictKind.MISMATCH
    looked_at = [numbers[0] for _, numbers in sides[:2]]
    verdict = _about(scene, kind, sentence, standing, culprits)
    others = tuple(number for number in sorted(standing.all_calls) if number not in culprits)
    return _with(replace(verdict, others=others), evidence, scene.names.looking(looked_at))


def _lonely(scene: Scene, standing: PendingCollective) -> Verdict:
    number = standing.waiting[0]
    sentence = (
        f"{scene.names.described([number])} waits in {full_name(standing)}{since(standing.age)}, a group that no other "
        "rank has made"
    )
    others = [other for other in standing.group.numbers if other != number]
    evidence = [*scene.lines([number], standing), *scene.lines(others, standing), *time_left(standing)]
    verdict = _about(scene, VerdictKind.ORDER, sentence, standing, [number])
    return _with(verdict, evidence, scene.names.entering([number]))


def _circle(scene: Scene, circle: tuple[PendingCollective, ...]) -> Verdict:
    ranks = sorted({number for standing in circle for number in standing.waiting})
    pieces = []
    for standing, following in zip(circle, (*circle[1:], circle[0]), strict=True):
        awaited = [number for number in standing.missing if number in following.calls] or list(standing.missing)
        waits = "waits" if len(standing.calls) == 1 else "wait"
        what = f"{short_name(standing)}{_tag(standing)}"
        pieces.append(f"{scene.names.ranks(standing.waiting)} {waits} in {what} for {_few(awaited)}")
    peers = all(standing.has_peer for standing in circle)
    kind = VerdictKind.PARTNER if peers else VerdictKind.ORDER
    ended = [number for number in ranks if number in scene.conditions and scene.conditions[number].ended]
    if peers:
        end = "nobody sends" if all(standing.is_receive for standing in circle) else "nobody takes the other's call"
    elif ended:
        end = f"in rank {ended[0]} {scene.conditions[ended[0]].ended[-1]}"
    elif len({id(standing.group) for standing in circle}) == 1:
        # Only the calls of one group have one order: of two groups, one may never be called.
        end = "they call them in different orders"
    else:
        end = "each waits for the other" if len(circle) == 2 else "each waits for the next"
    shown = ", and ".join(pieces[:MAX_SIDES])
    sentence = f"{shown}{since(max((one.age or 0.0 for one in circle), default=None))}: {end}"
    told = [scene.conditions[ended[0]].ended[-1]] if ended and not peers else []
    evidence = [*scene.lines(ranks, told=told), *time_left(circle[0])]
    verdict = _about(scene, kind, sentence, circle[0], ranks)
    first = [standing.waiting[0] for standing in circle[:2]]
    return _with(verdict, evidence, scene.names.looking(first))


def _tag(standing: PendingCollective) -> str:
    tag = tag_of(standing)
    return f" ({tag})" if tag else ""


def _few(numbers: Sequence[int]) -> str:
    return (
        f"rank{'s' if len(numbers) != 1 else ''} {', '.join(map(str, numbers[:4]))}{', …' if len(numbers) > 4 else ''}"
    )


def _no_partner(scene: Scene, cause: Cause) -> Verdict:
    standing, (peer, *_) = cause.standing, cause.culprits
    waits = "waits to receive from" if standing.is_receive else "waits to send to"
    does_not = _does_not(standing)
    elsewhere = next((other for other in cause.behind if peer in other.calls), None)
    why = f"it waits in {short_name(elsewhere)}" if elsewhere is not None else _common_cause(scene, cause.culprits)
    who = scene.names.described([peer])
    place = f" in {full_name(standing)}" if standing.group.label or standing.sequence is not None else ""
    sentence = (
        f"rank {standing.waiting[0]} {waits} rank {peer}{place}{since(standing.age)}; {who} {does_not}"
        f"{f': {why}' if why else ''}"
    )
    evidence = [
        *scene.lines([peer], standing, is_cause_told=True),
        *scene.lines(standing.waiting, standing),
        *_others(scene, cause),
        *([OTHER_TAGS] if standing.is_receive and "no send" in does_not else []),
    ]
    evidence += time_left(standing)
    verdict = _about(scene, VerdictKind.PARTNER, sentence, standing, [peer])
    # Of two tags, either may be the wrong one.
    names, both = scene.names, (standing.waiting[0], peer)
    return _with(verdict, evidence, names.looking(both) if tag_of(standing) else names.entering([peer]))


def _does_not(standing: PendingCollective) -> str:
    """Say what the peer of a send or receive lacks; what was sent with another tag does not count."""
    (call,) = standing.calls.values()
    if call.tag is not None and call.tag >= 0:
        return f"has no {'send' if standing.is_receive else 'receive'} with tag {call.tag}"
    if call.tag is None and call.timeout is None:
        # Nobody has recorded it, and its tag can't be read.
        return f"is in no {'send' if standing.is_receive else 'receive'} for it"
    return "has not sent" if standing.is_receive else "does not receive"


def _peerless(scene: Scene, standing: PendingCollective) -> Verdict:
    number = standing.waiting[0]
    other = "sends" if standing.is_receive else "receives"
    sentence = (
        f"{scene.names.described([number])} waits in {full_name(standing)}{since(standing.age)}, and no rank of the "
        f"group {other}; who should is not known"
    )
    evidence = [*scene.lines([number], standing), *time_left(standing)]
    verdict = _about(scene, VerdictKind.PARTNER, sentence, standing, [number])
    return _with(verdict, evidence, scene.names.entering([number]))


def _doubtful(scene: Scene, standing: PendingCollective) -> Verdict:
    silent = len(standing.unheard)
    sentence = (
        f"{_who_waits(standing)} in {full_name(standing)}{since(standing.age)}; "
        f"{scene.names.described(standing.unheard)} did not tell of it, so that who is missing can't be told"
    )
    evidence = [*scene.lines(standing.unheard, standing), *time_left(standing)]
    verdict = _about(scene, VerdictKind.UNKNOWN, sentence, standing, standing.unheard)
    there = [number for number in standing.unheard if number in scene.matched.roster]
    command = scene.names.looking(there[:silent]) if there else (None, "")
    return _with(verdict, evidence, command)


def _complete(scene: Scene, standing: PendingCollective) -> Verdict:
    ranks = sorted({*standing.waiting, *([standing.peer] if standing.peer is not None else [])})
    who = {1: scene.names.described(ranks), 2: f"both {_few(ranks)}"}.get(len(ranks), f"all {len(ranks)} ranks")
    are = "is" if len(ranks) == 1 else "are"
    if standing.group.is_inferred:
        end = "which call of which group it is they do not tell"
        sentence = f"{who} {are} in {short_name(standing)}{since(standing.age)}, as their stacks say; {end}"
    elif len(ranks) == 1:
        end = "it is the only one in the group, so that nobody is missing"
        sentence = f"{who} {are} in {full_name(standing)}{since(standing.age)}; {end}"
    else:
        end = "nobody is missing, so that it is the network or a device that does not go on"
        sentence = f"{who} {are} in {full_name(standing)}{since(standing.age)}; {end}"
    evidence = [*scene.lines(ranks, standing), *other_roots(standing), *time_left(standing)]
    verdict = _about(scene, VerdictKind.UNKNOWN, sentence, standing, ranks)
    return _with(verdict, evidence, scene.names.looking(ranks))
