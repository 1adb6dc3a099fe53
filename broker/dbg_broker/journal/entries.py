"""Lines of the audit log as the broker writes them: what is noted of a question, and of its ranks. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import fields

from dbg_command.audit import Entry
from dbg_wire.messages import Question
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.beside import CommandLine
from dbg_wire.records.breakpoints import BreakpointsWish, BreakpointWish
from dbg_wire.records.inspection import Inspection, Sight

MAX_TEXT = 2000
"""Characters of a question, or of any other text of an entry: an expression is shorter, a pasted block is cut."""

_TEXTS = tuple(one.name for one in fields(Entry) if one.name not in ("at", "what", "count"))


def encode_entry(entry: Entry) -> bytes:
    """Return the line of an entry; what is empty is left out."""
    document: dict[str, object] = {"at": round(entry.at, 3), "what": entry.what.value}
    for name in _TEXTS:
        text = getattr(entry, name)
        if text:
            document[name] = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    if entry.count:
        document["count"] = entry.count
    # A lone surrogate, which a rank's name may hold, is escaped.
    return json.dumps(document).encode() + b"\n"


def shown_ranks(named: Iterable[tuple[int, str]]) -> str:
    """Return ranks of one job, given by number and address, as one text: the address of one, the set of several."""
    ranks = list(named)
    return ranks[0][1] if len(ranks) == 1 else format_ranks({number for number, _ in ranks})


def text_of(question: Question, *, audits_input: bool) -> str | None:
    """Return the text of a question for the log; None for a question about a line that is being typed, as input."""
    asked = question.inquiry
    if isinstance(asked, Inspection):
        return None if asked.sight is Sight.COMPLETIONS and not audits_input else _of_inspection(asked)
    if isinstance(asked, BreakpointsWish):
        return ", ".join(_of_wish(asked))
    return shlex.join(asked.words) if isinstance(asked, CommandLine) else question.text


def _of_inspection(asked: Inspection) -> str:
    if asked.sight is Sight.ASSIGN:
        return f"{asked.name} = {asked.text}"
    if asked.sight is Sight.VALUE:
        return asked.text
    if asked.sight is Sight.PARTS:
        return f"value {asked.handle}" if asked.handle else asked.scope.value
    return f"{asked.sight.value} {asked.text}".rstrip()


def _of_wish(wish: BreakpointsWish) -> Iterator[str]:
    for line in wish.clear:
        yield f"clear {line.file}:{line.line}"
    for one in wish.set:
        yield f"set {one.file}:{one.line}{_conditions(one)}"


def _conditions(one: BreakpointWish) -> str:
    return "".join(
        f" {word} {text}" for word, text in (("if", one.condition), ("hits", one.hits), ("log", one.log)) if text
    )
