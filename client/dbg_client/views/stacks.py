"""The stacks of many ranks, equal ones as one group, and who has not come to a collective; with their JSON. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dbg_client.core.collective_matching import Matched, PendingCollective
from dbg_client.views.groups import (
    MAX_NAMES,
    MAX_REASONS,
    AnswerGroup,
    RankAndAnswer,
    count_answered,
    group_answers,
    place_document,
    summarize,
)
from dbg_client.views.missing import NOBODY_MISSING, MissingInAnswer
from dbg_client.views.naming import Naming, clip
from dbg_client.views.waits import (
    MAX_LABEL,
    NONE_PENDING,
    Age,
    StandingCounts,
    age_of,
    oldest,
    pending_document,
    show_pending,
    with_age,
)
from dbg_wire.errors import printable
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.ranks import Place, RankInfo, rank_order
from dbg_wire.tables.collectives import collective_of

USUAL_STATES = frozenset({"", "running", "stopped", "held"})
"""States that JSON leaves out: `list` shows them. Other states say how far a stack can be trusted."""

MISSING = "@missing"
"""The name of the group, also as a target."""

YOUNGEST_SECONDS = 1.0
"""Seconds below which nobody counts as missing: in a job that goes on the slowest rank comes a moment after the others.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackGroup(AnswerGroup):
    """Ranks with the same stack. ``frames`` has the outermost first, ``states`` and ``ages`` one for each rank.

    ``kind`` is ``stack``, or for the last stack of a rank that can't answer any more, ``silent`` or ``lost``.
    """

    frames: tuple[Place, ...]
    states: tuple[str, ...]
    ages: tuple[Age, ...]
    thread: str | None = None
    """The name of the threads with this stack; None where only one thread of each rank was asked for."""
    standing: PendingCollective | None = None
    """The collective that most of the ranks are in; None if none has told of one."""


def group_stacks(
    said: Sequence[RankAndAnswer],
    known: Sequence[RankInfo] | None = None,
    standings: Mapping[str, PendingCollective] = NONE_PENDING,
) -> tuple[list[StackGroup], list[AnswerGroup]]:
    """Return the groups of equal stacks, the biggest first, and the groups of ranks without one.

    ``known`` are all ranks there are, by default those that were asked: a rank in a collective waits for those that
    stand still. ``standings`` are the collectives that ranks have told, by their keys.
    """
    still = StandingCounts([rank for rank, _ in said] if known is None else known)
    gathered: defaultdict[tuple[str, tuple[Place, ...]], list[RankAndAnswer]] = defaultdict(list)
    without: list[RankAndAnswer] = []
    for rank, answer in said:
        if answer.frames or answer.kind is Kind.VALUE:
            kind = answer.kind.value if answer.kind in (Kind.SILENT, Kind.LOST) else "stack"
            gathered[kind, answer.frames].append((rank, answer))
        else:
            without.append((rank, answer))
    members = [(kind, frames, sorted(some, key=_order)) for (kind, frames), some in gathered.items()]
    members.sort(key=lambda one: (-len(one[2]), one[0] != "stack", _order(one[2][0])))
    stacks = [
        StackGroup(
            id=f"@{number}",
            kind=kind,
            ranks=tuple(rank for rank, _ in some),
            text="",
            frames=frames,
            states=tuple(state_of(rank, answer, still, standings.get(rank.key)) for rank, answer in some),
            ages=tuple(age_of(answer) for _, answer in some),
            standing=usual_standing([rank for rank, _ in some], standings),
        )
        for number, (kind, frames, some) in enumerate(members, 1)
    ]
    return stacks, group_answers(without, compare=False)


def state_of(
    rank: RankInfo, answer: RankAnswer, still: StandingCounts, standing: PendingCollective | None = None
) -> str:
    """Return the state that an answer tells, or what its rank waits for in a collective."""
    if answer.kind is not Kind.VALUE or answer.text != "running":
        return answer.text
    if standing is not None:
        return show_pending(standing)
    return still.show_wait(collective_of(answer.frames), rank.job) or answer.text


def usual_standing(ranks: Sequence[RankInfo], standings: Mapping[str, PendingCollective]) -> PendingCollective | None:
    """Return the collective that most of these ranks are in; None if none has told of one."""
    found = {id(standings[rank.key]): standings[rank.key] for rank in ranks if rank.key in standings}
    counts = Counter(id(standings[rank.key]) for rank in ranks if rank.key in standings)
    return found[counts.most_common(1)[0][0]] if counts else None


def show_states(groups: Sequence[StackGroup], naming: Naming) -> str:
    """Return the state of most ranks of some groups, and which ranks are in others, each with its age."""
    ranks_in: defaultdict[str, list[RankInfo]] = defaultdict(list)
    ages_in: defaultdict[str, list[Age]] = defaultdict(list)
    for group in groups:
        for rank, state, age in zip(group.ranks, group.states, group.ages, strict=True):
            ranks_in[state].append(rank)
            ages_in[state].append(age)
    usual, *others = sorted(ranks_in, key=lambda state: -len(ranks_in[state]))
    named = [
        f"{clip(naming.names(ranks_in[state]), MAX_NAMES)}: {with_age(state, ages_in[state])}"
        for state in others[: MAX_REASONS - 1]
    ]
    more = len(others) - len(named)
    first = with_age(usual, ages_in[usual])
    return "; ".join([first, *named, f"and {more} more states"] if more else [first, *named])


def stacks_document(
    stacks: Sequence[StackGroup],
    others: Sequence[AnswerGroup],
    naming: Naming,
    missing: MissingInAnswer = NOBODY_MISSING,
) -> dict[str, object]:
    """Return what becomes the JSON document."""
    everyone: list[AnswerGroup] = [*stacks, *others]
    return {
        "schema": 1,
        "asked": sum(group.count for group in everyone),
        "answered": count_answered(everyone),
        "groups": [_document(group, naming) for group in sorted(everyone, key=lambda group: -group.count)],
        "missing": list(missing.documents),
    }


def _document(group: AnswerGroup, naming: Naming) -> dict[str, object]:
    document: dict[str, object] = {
        "id": group.id,
        "kind": group.kind,
        "ranks": naming.names(group.ranks),
        "count": group.count,
    }
    if not isinstance(group, StackGroup):
        document["text"] = group.text
        document |= {"age": None, "collective": None}
        return document
    if group.kind != "stack" or not USUAL_STATES.issuperset(group.states):
        document["text"] = show_states([group], naming)
    seconds = oldest(group.ages)
    document["age"] = None if seconds is None else round(seconds, 3)
    document["collective"] = pending_document(group.standing)
    if group.thread is not None:
        document["thread"] = group.thread
    document["frames"] = list(map(place_document, group.frames))
    return document


def _order(one: RankAndAnswer) -> tuple[object, ...]:
    return rank_order(one[0])


def missing_from_collectives(matched: Iterable[Matched]) -> AnswerGroup | None:
    """Return who is missing from a collective, as recorded by a library; None if nobody is."""
    ranks: dict[str, RankInfo] = {}
    reasons: list[str] = []
    for one in matched:
        for standing in filter(_is_told, one.standings):
            absent = [one.roster[number].rank for number in standing.missing if number in one.roster]
            ranks |= {rank.key: rank for rank in absent}
            reasons += [_reason(standing)] * len(absent)
    if not ranks:
        return None
    return AnswerGroup(
        id=MISSING, kind="missing", ranks=tuple(sorted(ranks.values(), key=rank_order)), text=summarize(reasons)
    )


def _is_told(standing: PendingCollective) -> bool:
    return not standing.group.is_inferred and (standing.age is None or standing.age >= YOUNGEST_SECONDS)


def _reason(standing: PendingCollective) -> str:
    label = printable(standing.label, MAX_LABEL)
    if standing.has_peer:
        other = ", ".join(str(number) for number in standing.waiting)
        return f"not come to {label} with rank {other}"
    return f"not come to {label}"
