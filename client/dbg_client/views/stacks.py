"""Stacks of many ranks in groups of equal stacks, and ranks missing from a collective; also as JSON. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dbg_client.views.ages import Age, StandingCounts, age_of, oldest, with_age
from dbg_client.views.groups import (
    ANSWERED,
    MAX_NAMES,
    MAX_REASONS,
    AnswerGroup,
    RankAndAnswer,
    group_answers,
    place_document,
)
from dbg_client.views.naming import NOBODY_MISSING, MissingInAnswer, Naming, clip
from dbg_wire.libraries import collective_of
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.ranks import Place, RankInfo, ThreadStack, rank_order

USUAL_STATES = frozenset({"", "running", "stopped", "held"})
"""States that JSON omits, because `list` shows them.

JSON has all other states, because they limit how far a reader can trust the stack.
"""

MAIN = "MainThread"
"""Python's name of a process's main thread."""

ONLY_ONE = "main or stopped thread"
"""Name of the thread if an answer has one stack and no thread names, such as the answer of a rank in C code."""

_NUMBERED = re.compile(r"Thread-\d+ \((.+)\)")

_NUMBERS = re.compile(r"(Thread|Dummy|ThreadPoolExecutor|asyncio)[-_]\d+(_\d+)?")

MISSING = "@missing"
"""Name of the group of ranks that are missing from a collective; it is also a target."""


@dataclass(frozen=True, slots=True)
class Note:
    """Note on a rank in a collective: ``state`` is shown instead of its own state, ``collective`` is for JSON."""

    state: str
    collective: Mapping[str, object] | None = None


Notes = Mapping[str, Note]
"""Notes by the ranks' keys."""

NO_NOTES: Notes = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class StackGroup(AnswerGroup):
    """Ranks with the same stack. ``frames`` begins with the outermost frame; ``states`` and ``ages`` are per rank.

    ``kind`` is ``stack``, or for the last known stack of a rank that can't answer, ``silent`` or ``lost``.
    """

    frames: tuple[Place, ...]
    states: tuple[str, ...]
    ages: tuple[Age, ...]
    thread: str | None = None
    """Name of the threads with this stack; None if only one thread of each rank was asked for."""
    note: Note | None = None
    """Note that most of the ranks have; None if no rank has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stack:
    """One stack of one rank; ``thread`` is the name of its thread if all threads were asked for, else None."""

    rank: RankInfo
    kind: str
    thread: str | None
    frames: tuple[Place, ...]
    state: str
    age: Age


def group_stacks(
    by_rank: Sequence[RankAndAnswer],
    known: Sequence[RankInfo] | None = None,
    notes: Notes = NO_NOTES,
    *,
    threads: bool = False,
) -> tuple[list[StackGroup], list[AnswerGroup]]:
    """Return the groups of equal stacks, the largest first, and the groups of ranks without a stack.

    ``known`` are all ranks, by default the ranks that were asked. They are needed because a rank in a collective may
    wait for stopped or held ranks. With ``threads``, the stacks of all threads are grouped: main threads first, then
    the names that most ranks have.
    """
    still = StandingCounts([rank for rank, _ in by_rank] if known is None else known)
    gathered: defaultdict[tuple[str, str | None, tuple[Place, ...]], list[_Stack]] = defaultdict(list)
    without: list[RankAndAnswer] = []
    for rank, answer in by_rank:
        if not answer.frames and not answer.threads and answer.kind is not Kind.VALUE:
            without.append((rank, answer))
            continue
        for one in _stacks_of(rank, answer, still, notes.get(rank.key), threads=threads):
            gathered[one.kind, one.thread, one.frames].append(one)
    ranks_of: defaultdict[str | None, set[str]] = defaultdict(set)
    for (_, thread, _), some in gathered.items():
        ranks_of[thread].update(one.rank.key for one in some)

    def place(group: StackGroup) -> tuple[object, ...]:
        name, first = group.thread, group.ranks[0]
        return name != MAIN, -len(ranks_of[name]), name or "", -group.count, group.kind != "stack", rank_order(first)

    groups = sorted((_group(some, notes) for some in gathered.values()), key=place)
    stacks = [replace(group, id=f"@{number}") for number, group in enumerate(groups, 1)]
    return stacks, group_answers(without)


def _stacks_of(
    rank: RankInfo, answer: RankAnswer, still: StandingCounts, note: Note | None, *, threads: bool
) -> Iterator[_Stack]:
    """Yield the stacks in an answer: of each thread, or only of the thread that was asked for."""
    kind = answer.kind.value if answer.kind in (Kind.SILENT, Kind.LOST) else "stack"
    asked = ThreadStack(name=ONLY_ONE, frames=answer.frames, halted=True)
    for one in (answer.threads or (asked,)) if threads else (asked,):
        is_asked = one.halted or (one.name == MAIN and not any(other.halted for other in answer.threads))
        # The answer's text is the state of the stopped thread; the other threads run.
        text = answer.text if one.halted or answer.kind is not Kind.VALUE else "running"
        yield _Stack(
            rank=rank,
            kind=kind,
            thread=common_name(one.name) if threads else None,
            frames=one.frames,
            state=state_of(rank, answer.replace(text=text, frames=one.frames), still, note if is_asked else None),
            age=age_of(answer) if is_asked else Age(),
        )


def _group(stacks: Sequence[_Stack], notes: Notes) -> StackGroup:
    """Return equal stacks as a group. A rank may have several threads with one name."""
    of_rank: defaultdict[str, list[_Stack]] = defaultdict(list)
    for one in sorted(stacks, key=lambda one: rank_order(one.rank)):
        of_rank[one.rank.key].append(one)
    firsts = [some[0] for some in of_rank.values()]
    ranks, first = tuple(one.rank for one in firsts), firsts[0]
    return StackGroup(
        id="",
        kind=first.kind,
        ranks=ranks,
        text="",
        frames=first.frames,
        states=tuple(
            some[0].state if len(some) == 1 else f"{some[0].state}, {len(some)} threads" for some in of_rank.values()
        ),
        ages=tuple(one.age for one in firsts),
        thread=first.thread,
        note=usual_note(ranks, notes) if first.thread in (None, MAIN, ONLY_ONE) else None,
    )


def common_name(name: str) -> str:
    """Return a thread's name without the number from Python, so that it is the same in every rank."""
    target = _NUMBERED.fullmatch(name)
    if target is not None:
        return target[1]
    numbered = _NUMBERS.fullmatch(name)
    return numbered[1] if numbered is not None else name


def state_of(rank: RankInfo, answer: RankAnswer, still: StandingCounts, note: Note | None = None) -> str:
    """Return the state in a rank's answer, or its wait in a collective."""
    if answer.kind is not Kind.VALUE or answer.text != "running":
        return answer.text
    if note is not None:
        return note.state
    return still.show_wait(collective_of(answer.frames), rank.job) or answer.text


def usual_note(ranks: Sequence[RankInfo], notes: Notes) -> Note | None:
    """Return the note that most of these ranks have; None if no rank has one."""
    found = {id(note): note for rank in ranks if (note := notes.get(rank.key)) is not None}
    counts = Counter(id(notes[rank.key]) for rank in ranks if rank.key in notes)
    return found[counts.most_common(1)[0][0]] if counts else None


def show_states(groups: Sequence[StackGroup], naming: Naming) -> str:
    """Return the most frequent state in some groups, and the other states with their ranks, each with its age."""
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
    """Return the stacks as a JSON document."""
    everyone: list[AnswerGroup] = [*stacks, *others]
    return {
        "schema": 1,
        "asked": count_ranks(everyone),
        "answered": count_ranks([group for group in everyone if group.kind in ANSWERED]),
        "groups": [_document(group, naming) for group in sorted(everyone, key=lambda group: -group.count)],
        "missing": list(missing.documents),
    }


def count_ranks(groups: Sequence[AnswerGroup]) -> int:
    """Return the number of different ranks in some groups. A rank is in one group for each of its threads."""
    return len({rank.key for group in groups for rank in group.ranks})


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
