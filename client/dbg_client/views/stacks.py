"""The stacks of many ranks, equal ones as one group, and who has not come to a collective; with their JSON. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbg_client.views.ages import Age, StandingCounts, age_of, oldest, with_age
from dbg_client.views.groups import (
    MAX_NAMES,
    MAX_REASONS,
    AnswerGroup,
    RankAndAnswer,
    count_answered,
    group_answers,
    place_document,
)
from dbg_client.views.naming import NOBODY_MISSING, MissingInAnswer, Naming, clip
from dbg_wire.libraries import collective_of
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.ranks import Place, RankInfo, rank_order

USUAL_STATES = frozenset({"", "running", "stopped", "held"})
"""States that JSON leaves out: `list` shows them. Other states say how far a stack can be trusted."""

MISSING = "@missing"
"""The name of the group, also as a target."""


@dataclass(frozen=True, slots=True)
class Note:
    """An extension's note on a rank: the ``state`` in place of the rank's own, and the collective for JSON."""

    state: str
    collective: Mapping[str, object] | None = None


Notes = Mapping[str, Note]
"""Notes by the ranks' keys."""

NO_NOTES: Notes = {}


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
    note: Note | None = None
    """The note that most of the ranks have; None if none has one."""


def group_stacks(
    said: Sequence[RankAndAnswer],
    known: Sequence[RankInfo] | None = None,
    notes: Notes = NO_NOTES,
) -> tuple[list[StackGroup], list[AnswerGroup]]:
    """Return the groups of equal stacks, the biggest first, and the groups of ranks without one.

    ``known`` are all ranks there are, by default those that were asked: a rank in a collective waits for those that
    stand still.
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
            states=tuple(state_of(rank, answer, still, notes.get(rank.key)) for rank, answer in some),
            ages=tuple(age_of(answer) for _, answer in some),
            note=usual_note([rank for rank, _ in some], notes),
        )
        for number, (kind, frames, some) in enumerate(members, 1)
    ]
    return stacks, group_answers(without, compare=False)


def state_of(rank: RankInfo, answer: RankAnswer, still: StandingCounts, note: Note | None = None) -> str:
    """Return the state of a rank by its answer, or the wait in a collective."""
    if answer.kind is not Kind.VALUE or answer.text != "running":
        return answer.text
    if note is not None:
        return note.state
    return still.show_wait(collective_of(answer.frames), rank.job) or answer.text


def usual_note(ranks: Sequence[RankInfo], notes: Notes) -> Note | None:
    """Return the note that most of these ranks have; None if none has one."""
    found = {id(note): note for rank in ranks if (note := notes.get(rank.key)) is not None}
    counts = Counter(id(notes[rank.key]) for rank in ranks if rank.key in notes)
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
    document["collective"] = None if group.note is None else group.note.collective
    if group.thread is not None:
        document["thread"] = group.thread
    document["frames"] = list(map(place_document, group.frames))
    return document


def _order(one: RankAndAnswer) -> tuple[object, ...]:
    return rank_order(one[0])
