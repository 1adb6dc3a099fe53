"""A line of evidence for each rank: where it is, for how long, and which collective it finished last. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbg_client.core.process_groups import ProcessGroup, has_peer
from dbg_client.core.rank_evidence import RankEvidence, Roster
from dbg_client.hang.condition import MAX_TEXT, Condition
from dbg_client.hang.verdict import MAX_EVIDENCE
from dbg_client.views.ages import Age, age_of, of_about_one_age, told_for
from dbg_client.views.naming import clip
from dbg_client.views.tree import is_library
from dbg_wire.errors import printable
from dbg_wire.messages import Kind
from dbg_wire.records.evidence import CollectiveSeen, CollectiveState
from dbg_wire.records.ranks import LIVE_STATES, Place
from dbg_wire.targets.rank_set import format_ranks

MAX_FUNCTIONS = 3
"""Functions of the user's code that a line names."""

MAX_NAMES = 20
"""Columns for the ranks of one line."""


NO_WAITS: Mapping[int, str] = {}
"""No rank waits in another collective."""


def rank_lines(
    numbers: Sequence[int],
    roster: Roster,
    conditions: Mapping[int, Condition],
    group: ProcessGroup | None = None,
    waits: Mapping[int, str] = NO_WAITS,
) -> list[str]:
    """Return a line for each of the ranks, one for those of which the same is true, for about as long.

    ``conditions`` are those that no sentence has told; ``group`` is the one whose last collective is of interest.
    ``waits`` are the collectives that ranks wait in.
    """
    alike: defaultdict[_Line, dict[int, Age]] = defaultdict(dict)
    for number in numbers:
        one = roster.get(number)
        if one is None:
            alike[_Line("never connected")][number] = Age()
        else:
            line = _line_of(one, conditions.get(number), group, waits.get(number, ""))
            alike[line][number] = _age_of(one)
    rows = [(line, some) for line, ages in alike.items() for some in of_about_one_age(ages)]
    rows.sort(key=lambda row: (-len(row[1]), min(row[1])))
    shown = [f"{clip(format_ranks(sorted(some)), MAX_NAMES)}  {line.with_age(some)}" for line, some in rows]
    rest = sum(len(some) for _, some in rows[MAX_EVIDENCE - 1 :])
    return [*shown[: MAX_EVIDENCE - 1], f"and {rest} more; --json names them"] if rest else shown


def place_of(frames: Sequence[Place]) -> str:
    """Return where a stack is in the user's code: ``data.py:17 wait_for_shard < next_batch``; empty without one."""
    own = [place for place in frames if not is_library(place.file)] or list(frames)
    if not own:
        return ""
    inner = own[-1]
    functions = [printable(place.function, 60) for place in reversed(own[-MAX_FUNCTIONS:])]
    if functions[-1] == "<module>" and len(functions) > 1:
        del functions[-1]
    return f"{printable(inner.file.rpartition('/')[2], 60)}:{inner.line} {' < '.join(functions)}"


@dataclass(frozen=True, slots=True)
class _Line:
    """What is said of a rank: where it is, what else is known, and the collective that it finished last."""

    where: str
    news: tuple[str, ...] = ()
    last: str = ""

    def with_age(self, ages: Mapping[int, Age]) -> str:
        """Return the line of ranks that have been there for about as long."""
        told = told_for(list(ages.values()))
        news = [*self.news, f"in it for {told}" if told else "", self.last]
        said = "; ".join(filter(None, news))
        return f"{self.where}     {said}" if said else self.where


def _age_of(one: RankEvidence) -> Age:
    return age_of(one.answer) if one.answer.frames else Age()


def _line_of(one: RankEvidence, condition: Condition | None, group: ProcessGroup | None, waits_in: str) -> _Line:
    state = one.rank.state.value
    if one.answer.kind is not Kind.VALUE and one.rank.state in LIVE_STATES:
        state = "silent" if one.rank.state.value == "running" else state
    pieces = [piece for piece in (state, place_of(one.answer.frames)) if piece]
    news = []
    if waits_in:
        news.append(f"{'waits' if one.rank.state in LIVE_STATES else 'was'} in {waits_in}")
    # A thread's call of the library says no more than the collective.
    if (
        condition is not None
        and condition.text
        and not (waits_in and condition.kind is None and not condition.is_still)
    ):
        news.append(condition.text)
    if one.rank.passed:
        news.append(printable(f"passed {one.rank.passed}"))
    last = last_finished(one, group)
    return _Line("  ".join(pieces), tuple(news), f"last collective it finished: {last}" if last else "")


def last_finished(one: RankEvidence, group: ProcessGroup | None) -> str:
    """Return the last collective that a rank has finished, of this group if it tells; empty if unknown."""
    if one.evidence is None:
        return ""
    name = group.name if group is not None else None
    done = [
        call
        for call in one.evidence.collectives
        if call.state is CollectiveState.COMPLETED and not has_peer(call) and (name is None or call.group == name)
    ]
    if not done:
        return ""
    last: CollectiveSeen = max(done, key=lambda call: (call.sequence or 0, -(call.age or 0.0)))
    number = f" #{last.sequence}" if last.sequence is not None else ""
    label = f" of {group.label}" if group is not None and group.label else ""
    return printable(f"{last.name}{number}{label}", MAX_TEXT)


def thread_lines(condition: Condition) -> list[str]:
    """Return the threads of a deadlock, each with its stack and what it waits for."""
    return [
        f"thread {printable(wait.thread, 60)}  {place_of(wait.frames)}     {printable(wait.text, MAX_TEXT)}".rstrip()
        for wait in condition.threads
    ]
