"""Verdicts as text for people, and as the JSON document. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from dbg_client.hang.explain import Explanation
from dbg_client.hang.verdict import HARMLESS, Verdict, VerdictKind
from dbg_client.views.groups import paint
from dbg_wire.errors import printable
from dbg_wire.targets.rank_set import format_ranks

MAX_LINE = 1000
"""Characters of one line; what ranks tell in it has narrower bounds."""

INDENT = "  "

LEAST_COLUMNS = 40
"""Columns for which lines are broken at least: in fewer, every line would be a word."""


def show_verdicts(verdicts: Sequence[Verdict], *, color: bool, columns: int | None = None) -> str:
    """Return each verdict as a sentence, its evidence, and the command to type next.

    Lines are broken between words to fit into so many columns; None leaves them whole.
    """
    return "".join(_block(verdict, columns, color=color) for verdict in verdicts)


def verdicts_document(explanation: Explanation) -> dict[str, object]:
    """Return what becomes the JSON document."""
    return {
        "schema": 1,
        "asked": explanation.asked,
        "answered": explanation.answered,
        "verdicts": [_document(verdict) for verdict in explanation.verdicts],
    }


def _block(verdict: Verdict, columns: int | None, *, color: bool) -> str:
    job = f"{printable(verdict.job, 200)}: " if verdict.job else ""
    code = _color(verdict) if color else None
    lines = [paint(line, code) for line in broken(printable(f"{job}{verdict.sentence}", MAX_LINE), columns)]
    for evidence in verdict.evidence:
        lines += broken(f"{INDENT}{printable(evidence, MAX_LINE)}", columns)
    if verdict.next is not None:
        purpose = f"        ({verdict.purpose})" if verdict.purpose else ""
        lines.append(f"try: {printable(verdict.next, MAX_LINE)}{purpose}")
    return "".join(f"{line}\n" for line in lines)


def broken(line: str, columns: int | None) -> list[str]:
    """Break a line between words. A command is never broken: it is to be copied."""
    if columns is None or len(line) <= columns:
        return [line]
    begin = " " * (len(line) - len(line.lstrip()))
    behind = f"{begin}{2 * INDENT}"
    width = max(columns, LEAST_COLUMNS)
    return textwrap.wrap(line, width, subsequent_indent=behind, break_long_words=False, break_on_hyphens=False)


def _color(verdict: Verdict) -> str:
    if verdict.kind is VerdictKind.BUSY:
        return "32"
    return "35" if verdict.kind in HARMLESS else "1;31"


def _document(verdict: Verdict) -> dict[str, object]:
    return {
        "kind": verdict.kind.value,
        "sentence": verdict.sentence,
        "certainty": None if verdict.certainty is None else verdict.certainty.value,
        "job": verdict.job,
        "ranks": format_ranks(verdict.ranks) or None,
        "others": format_ranks(verdict.others) or None,
        "cause": None if verdict.cause is None else verdict.cause.value,
        "group": verdict.group,
        "collective": verdict.collective,
        "sequence": verdict.sequence,
        "age": None if verdict.age is None else round(verdict.age, 3),
        "evidence": list(verdict.evidence),
        "next": verdict.next,
    }
