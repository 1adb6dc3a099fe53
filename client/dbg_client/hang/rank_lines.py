"""A line of evidence for each rank: where it is, for how long, and which collective it finished last. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from dbg_wire.errors import printable
from dbg_wire.evidence import CollectiveSeen, CollectiveState
from dbg_wire.messages import Kind
from dbg_wire.rank_set import format_ranks
from dbg_wire.ranks import LIVE_STATES, Place

from ..core.process_groups import ProcessGroup, has_peer
from ..core.rank_evidence import RankEvidence, Roster
from ..views.ages import show_age
from ..views.naming import clip
from ..views.tree import is_library
from .condition import MAX_TEXT, Condition
from .verdict import MAX_EVIDENCE

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
    """Return a line for each of the ranks, one for those of which the same is true.

    ``conditions`` are those that no sentence has told; ``group`` is the one whose last collective is of interest.
    ``waits`` are the collectives that ranks wait in.
    """
    alike: defaultdict[str, list[int]] = defaultdict(list)
    for number in numbers:
        one = roster.get(number)
        what = "never connected" if one is None else _what(one, conditions.get(number), group, waits.get(number, ""))
        alike[what].append(number)
    groups = sorted(alike.items(), key=lambda item: (-len(item[1]), item[1][0]))
    lines = [f"{clip(format_ranks(some), MAX_NAMES)}  {what}" for what, some in groups[: MAX_EVIDENCE - 1]]
    rest = sum(len(some) for _, some in groups[MAX_EVIDENCE - 1 :])
    return [*lines, f"and {rest} more; --json names them"] if rest else lines


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


def _what(one: RankEvidence, condition: Condition | None, group: ProcessGroup | None, waits_in: str) -> str:
    state = one.rank.state.value
    if one.answer.kind is not Kind.VALUE and one.rank.state in LIVE_STATES:
        state = "silent" if one.rank.state.value == "running" else state
    pieces = [piece for piece in (state, place_of(one.answer.frames)) if piece]
    news = []
    if waits_in:
        news.append(f"{'waits' if one.rank.state in LIVE_STATES else 'was'} in {waits_in}")
    if condition is not None and condition.text:
        news.append(condition.text)
    if one.answer.age is not None and one.answer.age >= 1 and one.answer.frames:
        news.append(f"in it for {'at least ' if one.answer.at_least else ''}{show_age(one.answer.age)}")
    last = last_finished(one, group)
    if last:
        news.append(f"last collective it finished: {last}")
    line = "  ".join(pieces)
    return f"{line}     {'; '.join(news)}" if news else line


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
