"""Equal answers of many ranks as groups, a table of them, and their JSON. Pure.

Values are equal if their digests are. A digest covers the omitted part of a long value, but no memory addresses.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from dbg_client.views.naming import NOBODY_MISSING, MissingInAnswer, Naming, clip
from dbg_client.views.table import padded
from dbg_wire.errors import printable
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.ranks import Place, RankInfo, rank_order

RankAndAnswer = tuple[RankInfo, RankAnswer]
"""Rank and its answer; the broker answers for a rank that can't."""

NOT_COMPARED = "values not compared"

MAX_GROUPS = 32
"""Maximum groups of values in a table. A value that differs everywhere is easier to read as JSON."""

MAX_NAMES = 40
"""Maximum columns for the ranks of one group. JSON lists them all."""

MAX_LINE = 4096
"""Maximum characters of one line of an answer's text."""

MAX_REASONS = 4
"""Maximum number of places or reasons in one line."""

MAX_PLACES = 3
"""Maximum number of frames in the first line of an answer."""

MAX_PLACE = 200
"""Maximum characters of one frame's function and file."""

ANSWERED = frozenset({"value", "error", "stack"})
"""Kinds of answers that the rank itself sends."""

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{4,}\b")
_KINDS = (Kind.VALUE, Kind.ERROR, Kind.RUNNING, Kind.SILENT, Kind.LOST)
_NAMES = {Kind.VALUE: "@", Kind.ERROR: "@err", Kind.RUNNING: "@run", Kind.SILENT: "@?", Kind.LOST: "@lost"}
_COLORS = {"error": "31", "silent": "35", "lost": "35", "running": "32"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerGroup:
    """Ranks with the same answer; ``id`` works as a target afterwards."""

    id: str
    kind: str
    ranks: tuple[RankInfo, ...]
    text: str
    frame: str = ""
    """Remark that the value is from an outer frame, to which the rank's debugger has moved up the stack; else empty."""
    places: tuple[Place, ...] = ()
    """Frames in which the value was evaluated, one for each rank that reports its frame."""

    @property
    def count(self) -> int:
        """Number of ranks."""
        return len(self.ranks)

    @property
    def place(self) -> Place | None:
        """Common frame of the evaluation; None if frames differ or a rank does not report it."""
        agreed = len(self.places) == self.count and len(set(self.places)) == 1
        return self.places[0] if agreed else None


def group_answers(by_rank: Sequence[RankAndAnswer]) -> list[AnswerGroup]:
    """Return the groups of answers, the largest first, each with a unique name.

    Ranks that run, are silent or are lost form one group per kind. If the text of a value without a digest may be cut,
    the text states that the value was not compared.
    """
    gathered: defaultdict[tuple[Kind, Hashable], list[RankAndAnswer]] = defaultdict(list)
    for rank, answer in by_rank:
        gathered[answer.kind, _what_is_equal(answer)].append((rank, answer))
    groups = [_group(kind, members) for (kind, _), members in gathered.items()]
    groups.sort(key=_size)
    return _named(groups)


def normal(text: str) -> str:
    """Return a text without memory addresses, to compare answers without a digest."""
    return _ADDRESS.sub("0x", text)


def count_answered(groups: Sequence[AnswerGroup]) -> int:
    """Return the number of ranks whose answer is their own and not from the broker."""
    return sum(group.count for group in groups if group.kind in ANSWERED)


def differ(groups: Sequence[AnswerGroup]) -> bool:
    """Return True if the answers of the ranks differ."""
    return sum(group.kind in ANSWERED for group in groups) > 1


def groups_document(
    command: str, groups: Sequence[AnswerGroup], naming: Naming, missing: MissingInAnswer = NOBODY_MISSING
) -> dict[str, object]:
    """Return the groups as a JSON document."""
    return {
        "schema": 1,
        "command": command,
        "asked": sum(group.count for group in groups),
        "answered": count_answered(groups),
        "groups": [
            {
                "id": group.id,
                "kind": group.kind,
                "ranks": naming.names(group.ranks),
                "count": group.count,
                "text": group.text,
                "frame": place_document(group.place) if group.place is not None else None,
            }
            for group in groups
        ],
        "missing": list(missing.documents),
    }


def place_document(place: Place) -> dict[str, object]:
    """Return a place as JSON fields."""
    return {"file": place.file, "line": place.line, "function": place.function}


def show_groups(
    command: str,
    groups: Sequence[AnswerGroup],
    naming: Naming,
    *,
    color: bool,
    missing: MissingInAnswer = NOBODY_MISSING,
) -> str:
    """Return a summary, and a line for each group, or a block for each if a text has several lines."""
    shown, left_out = _shown(groups)
    rows = [(group.id, counted(group.count), show_ranks(group.ranks, naming)) for group in shown]
    blocks = any("\n" in group.text for group in shown)
    lines = [summary(command, groups, missing)]
    for group, cells in zip(shown, padded(rows), strict=True):
        lines += _lines(group, "  ".join(cells), blocks=blocks, color=color)
    if left_out:
        ranks = sum(group.count for group in left_out)
        lines.append(f"and {len(left_out)} more values on {counted(ranks)}; --json lists them all")
    return "".join(f"{line}\n" for line in lines)


def summary(command: str, groups: Sequence[AnswerGroup], missing: MissingInAnswer) -> str:
    """Return the first line: the command, the number of answers, the missing ranks, and how far the answers agree."""
    asked, answered = sum(group.count for group in groups), count_answered(groups)
    kinds = Counter(group.kind for group in groups)
    agreement = [
        f"{kinds[kind]} {what if kinds[kind] == 1 else several}"
        for kind, what, several in (
            ("value", "value", "different values"),
            ("error", "error", "different errors"),
            ("stack", "stack", "different stacks"),
        )
        if kinds[kind]
    ]
    agreement += _where(groups)
    who = f"{answered} of {counted(asked + missing.exited)} answered"
    if missing.exited:
        clauses = [f"{who}: {missing.how}", missing.connected, ", ".join(agreement)]
    elif missing.connected:
        all_of_them = f"{answered} answered" if answered == asked else who
        clauses = [missing.connected, ", ".join([all_of_them, *agreement])]
    else:
        clauses = [", ".join([who, *agreement])]
    return f"{printable(command, MAX_LINE)}: {'; '.join(clause for clause in clauses if clause)}"


def _where(groups: Sequence[AnswerGroup]) -> list[str]:
    """Return the frames of the evaluation, the most frequent first; empty if no frame is known."""
    places = Counter(_shown_place(place) for group in groups for place in group.places)
    if not places:
        return []
    common = places.most_common(MAX_PLACES)
    answered = count_answered(groups) if len(places) == 1 else None
    named = [place if count == answered else f"{place} ({count})" for place, count in common]
    more = len(places) - len(common)
    return [f"in {', '.join(named)}{f' and {more} others' if more > 1 else ' and 1 other' if more else ''}"]


def _shown_place(place: Place) -> str:
    return printable(f"{place.function} {place.file.rpartition('/')[2]}:{place.line}", MAX_PLACE)


def show_ranks(ranks: Sequence[RankInfo], naming: Naming) -> str:
    """Return a group's ranks, and what distinguishes them from all other ranks."""
    names, reason = printable(clip(naming.names(ranks), MAX_NAMES), MAX_LINE), printable(naming.explain(ranks))
    return f"{names} = {reason}" if reason else names


def counted(count: int) -> str:
    """Return ``1 rank`` or ``3 ranks``."""
    return f"{count} rank" if count == 1 else f"{count} ranks"


def paint(text: str, code: str | None) -> str:
    """Return a text in a colour."""
    return f"\x1b[{code}m{text}\x1b[0m" if code else text


def remembered(groups: Sequence[AnswerGroup]) -> Mapping[str, tuple[str, ...]]:
    """Return the keys of each group's ranks by the name of the group."""
    return {group.id: tuple(rank.key for rank in group.ranks) for group in groups}


def _shown(groups: Sequence[AnswerGroup]) -> tuple[list[AnswerGroup], list[AnswerGroup]]:
    values = [group for group in groups if group.kind == Kind.VALUE.value]
    hidden = {group.id for group in values[MAX_GROUPS:]}
    return [group for group in groups if group.id not in hidden], values[MAX_GROUPS:]


def _lines(group: AnswerGroup, head: str, *, blocks: bool, color: bool) -> list[str]:
    painted = paint(head.rstrip() if blocks else head, _COLORS.get(group.kind) if color else None)
    texts = [printable(line.expandtabs(), MAX_LINE) for line in group.text.rstrip("\n").split("\n")]
    if group.frame:
        shown = printable(group.frame, MAX_LINE)
        texts = [*texts, f"({shown})"] if blocks else [f"{texts[0]}  ({shown})"]
    if blocks:
        return [painted, *(f"    {text}".rstrip() for text in texts)]
    return [f"{painted}  {texts[0]}".rstrip()]


def _what_is_equal(answer: RankAnswer) -> Hashable:
    if answer.kind not in (Kind.VALUE, Kind.ERROR):
        return None
    return ("digest", answer.digest) if answer.digest else ("text", normal(answer.text))


def _group(kind: Kind, members: Sequence[RankAndAnswer]) -> AnswerGroup:
    members = sorted(members, key=lambda by_rank: rank_order(by_rank[0]))
    first = members[0][1]
    if kind in (Kind.VALUE, Kind.ERROR):
        text = first.text
        if kind is Kind.VALUE and not _is_compared(first) and NOT_COMPARED not in text:
            text = f"{text} ({NOT_COMPARED})"
    else:
        text = summarize([answer.text for _, answer in members])
    ranks = tuple(rank for rank, _ in members)
    places = tuple(answer.frame for _, answer in members if answer.frame is not None)
    return AnswerGroup(id="", kind=kind.value, ranks=ranks, text=text, frame=_frame_of(kind, members), places=places)


def _frame_of(kind: Kind, members: Sequence[RankAndAnswer]) -> str:
    """Return a remark on evaluations in outer frames, with the number of ranks in each; empty if there are none."""
    places = Counter(
        _shown_place(place) for _, answer in members for place in answer.frames[-1:] if kind in (Kind.VALUE, Kind.ERROR)
    )
    if not places:
        return ""
    shown = [
        f"in {place}" if count == len(members) else f"{counted(count)} in {place}"
        for place, count in places.most_common(MAX_REASONS)
    ]
    return f"evaluated up the stack, in the debugger's current frame: {'; '.join(shown)}"


def _is_compared(answer: RankAnswer) -> bool:
    # Without a digest, a text may be cut. A single line without an ellipsis is complete, as the place after a step.
    return bool(answer.digest) or not any(mark in answer.text for mark in ("\n", "…"))


def summarize(texts: Sequence[str]) -> str:
    """Return the different texts in one line, the most frequent first, each with its count."""
    times = Counter(texts)
    if len(times) == 1:
        return texts[0]
    common = [f"{text} ({count})" for text, count in times.most_common(MAX_REASONS)]
    more = len(times) - len(common)
    return "; ".join([*common, f"and {more} more"] if more else common)


def _size(group: AnswerGroup) -> tuple[int, int, tuple[object, ...]]:
    return -group.count, _KINDS.index(Kind(group.kind)), rank_order(group.ranks[0])


def _named(groups: Sequence[AnswerGroup]) -> list[AnswerGroup]:
    times: Counter[Kind] = Counter()
    named = []
    for group in groups:
        kind = Kind(group.kind)
        times[kind] += 1
        number = str(times[kind]) if kind is Kind.VALUE or times[kind] > 1 else ""
        named.append(replace(group, id=f"{_NAMES[kind]}{number}"))
    return named


def lines_in(answer: RankAnswer) -> tuple[str, ...]:
    """Return the lines of the screen in an answer, or for a line debugger the lines of its output."""
    return tuple(row for row in answer.rows if isinstance(row, str)) or tuple(answer.text.split("\n"))


def show_screen(rows: Sequence[str]) -> str:
    """Return a screen as text, one line per row, without trailing blanks."""
    return "".join(f"{printable(row.rstrip(), 10_000)}\n" for row in rows)


def screen_document(rank: RankInfo, rows: Sequence[str]) -> dict[str, object]:
    """Return a screen as a JSON document."""
    return {"schema": 1, "address": rank.address, "job": rank.job, "screen": list(rows)}


def describe_answer(rank: RankInfo, answer: RankAnswer) -> str:
    """Return a sentence for an answer that contains no value."""
    explained = {
        Kind.ERROR: "refused",
        Kind.RUNNING: "is running",
        Kind.SILENT: "did not answer",
        Kind.LOST: "is lost",
        Kind.VALUE: "answered",
    }[answer.kind]
    why = f" ({printable(answer.text)})" if answer.text else ""
    return f"{printable(rank.address)} {explained}{why}"
