"""Answers kept in a file, and what is different from them now. Pure.

Ranks of two runs are matched by their names, which are numbers: job, host and process differ each time.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from dbg_client.views.groups import MAX_LINE, RankAndAnswer, counted, normal
from dbg_client.views.naming import Naming, clip
from dbg_client.views.tolerance import read_floats
from dbg_wire.errors import BadInput, printable
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.ranks import RankInfo

MAX_CHANGES = 32
"""Different changes that a table shows."""

MAX_NAMES = 40
"""Columns for the ranks of one change."""

_COMPARED = frozenset({Kind.VALUE.value, Kind.ERROR.value})


class SavedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's answer of another time."""

    rank: str
    kind: str
    text: str
    digest: str
    exact: str


class _SavedFile(msgspec.Struct, frozen=True):
    schema: Literal[1]
    command: str
    answers: list[SavedAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedAnswers:
    """The answers of another time by the names of their ranks."""

    command: str
    answers: Mapping[str, SavedAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedAnswer:
    """Ranks that had one value and have another."""

    ranks: tuple[RankInfo, ...]
    before: str
    now: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What is different; ``missing`` are the names of ranks that answered before and don't now."""

    command: str
    equal: tuple[RankInfo, ...]
    changes: tuple[ChangedAnswer, ...]
    new: tuple[RankInfo, ...]
    missing: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Return whether any answer changed, is new or is missing."""
        return bool(self.changes or self.new or self.missing)


def save_answers(command: str, said: Sequence[RankAndAnswer], naming: Naming) -> str:
    """Return the answers as the text of a file."""
    answers = [
        {
            "rank": naming.name(rank),
            "address": rank.address,
            "job": rank.job,
            "kind": answer.kind.value,
            "text": answer.text,
            "digest": answer.digest,
            "exact": answer.exact,
        }
        for rank, answer in said
    ]
    return json.dumps({"schema": 1, "command": command, "answers": answers}, indent=1) + "\n"


def load_answers(text: str, path: str) -> SavedAnswers:
    """Return what :func:`save_answers` wrote. Raises BadInput for any other text."""
    try:
        saved = msgspec.convert(json.loads(text), _SavedFile)
        return SavedAnswers(command=saved.command, answers={one.rank: one for one in saved.answers})
    except (ValueError, RecursionError):
        raise BadInput(f"{printable(path)} has no answers that --save has written", "name another file") from None


def compare_answers(
    saved: SavedAnswers,
    said: Sequence[RankAndAnswer],
    naming: Naming,
    *,
    exact: bool = False,
    tolerance: float | None = None,
) -> Comparison:
    """Return how values and exceptions differ from those before; a rank that has neither now is missing."""
    now = {
        naming.name(rank): (rank, _kept(naming.name(rank), answer))
        for rank, answer in said
        if answer.kind.value in _COMPARED
    }
    before = {name: kept for name, kept in saved.answers.items() if kept.kind in _COMPARED}
    changes: defaultdict[tuple[str, str], list[RankInfo]] = defaultdict(list)
    equal: list[RankInfo] = []
    new: list[RankInfo] = []
    for name, (rank, kept) in now.items():
        if name not in before:
            new.append(rank)
        elif _is_equal(before[name], kept, exact=exact, tolerance=tolerance):
            equal.append(rank)
        else:
            changes[before[name].text, kept.text].append(rank)
    ordered = sorted(changes.items(), key=lambda item: -len(item[1]))
    return Comparison(
        command=saved.command,
        equal=tuple(equal),
        changes=tuple(ChangedAnswer(ranks=tuple(ranks), before=old, now=text) for (old, text), ranks in ordered),
        new=tuple(new),
        missing=tuple(name for name in before if name not in now),
    )


def comparison_document(comparison: Comparison, path: str, naming: Naming) -> dict[str, object]:
    """Return what becomes a part of the JSON document."""
    return {
        "file": path,
        "command": comparison.command,
        "equal": naming.names(comparison.equal),
        "changed": [
            {
                "ranks": naming.names(change.ranks),
                "count": len(change.ranks),
                "before": change.before,
                "now": change.now,
            }
            for change in comparison.changes
        ],
        "new": naming.names(comparison.new),
        "missing": ",".join(comparison.missing),
    }


def show_comparison(comparison: Comparison, path: str, naming: Naming) -> str:
    """Return how many ranks differ from before, and a line for each change."""

    def names(ranks: Sequence[RankInfo]) -> str:
        return printable(clip(naming.names(ranks), MAX_NAMES))

    changed = sum(len(change.ranks) for change in comparison.changes)
    asked = "" if not comparison.command else f" ({printable(comparison.command)})"
    head = f"against {printable(path)}{asked}: {changed} changed, {len(comparison.equal)} equal"
    more = [("new", len(comparison.new)), ("missing", len(comparison.missing))]
    lines = [", ".join([head, *(f"{count} {what}" for what, count in more if count)])]
    for change in comparison.changes[:MAX_CHANGES]:
        lines.append(f"  {names(change.ranks)}  {_line(change.before)} -> {_line(change.now)}")
    hidden = comparison.changes[MAX_CHANGES:]
    if hidden:
        lines.append(f"  and {len(hidden)} more changes on {counted(sum(len(change.ranks) for change in hidden))}")
    if comparison.new:
        lines.append(f"  {names(comparison.new)}  new")
    if comparison.missing:
        lines.append(f"  {printable(clip(','.join(comparison.missing), MAX_NAMES))}  missing")
    return "".join(f"{line}\n" for line in lines)


def _kept(name: str, answer: RankAnswer) -> SavedAnswer:
    return SavedAnswer(rank=name, kind=answer.kind.value, text=answer.text, digest=answer.digest, exact=answer.exact)


def _is_equal(before: SavedAnswer, now: SavedAnswer, *, exact: bool, tolerance: float | None) -> bool:
    if before.kind != now.kind:
        return False
    old, new = (before.exact, now.exact) if exact else (before.digest, now.digest)
    if not (old and new):
        old, new = normal(before.text, exact=exact), normal(now.text, exact=exact)
    same = old == new
    if same or tolerance is None or now.kind != Kind.VALUE.value:
        return same
    floats, others = read_floats(before.text), read_floats(now.text)
    return floats is not None and others is not None and floats.is_near(others, tolerance)


def _line(text: str) -> str:
    return printable(text, MAX_LINE // 8)
