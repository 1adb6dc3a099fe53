"""Verdicts as text for people and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dbg_wire.errors import printable
from dbg_wire.rank_set import format_ranks

from ..views.groups import paint
from .explain import Explanation
from .verdict import HARMLESS, Verdict, VerdictKind

MAX_LINE = 1000
"""Characters of one line; what ranks tell in it has narrower bounds."""

INDENT = "  "


def show_verdicts(verdicts: Sequence[Verdict], *, color: bool) -> str:
    """Return each verdict as a sentence, its evidence, and the command to type next."""
    shown = [verdict for verdict in verdicts if not verdict.is_told]
    return "".join(_block(verdict, color=color) for verdict in shown)


def verdicts_document(explanation: Explanation) -> dict[str, object]:
    """Return what becomes the JSON document."""
    return {
        "schema": 1,
        "asked": explanation.asked,
        "answered": explanation.answered,
        "verdicts": [_document(verdict) for verdict in explanation.verdicts],
    }


def _block(verdict: Verdict, *, color: bool) -> str:
    job = f"{printable(verdict.job, 200)}: " if verdict.job else ""
    sentence = paint(printable(f"{job}{verdict.sentence}", MAX_LINE), _color(verdict) if color else None)
    lines = [sentence, *(f"{INDENT}{printable(line, MAX_LINE)}" for line in verdict.evidence)]
    if verdict.next is not None:
        purpose = f"        ({verdict.purpose})" if verdict.purpose else ""
        lines.append(f"try: {printable(verdict.next, MAX_LINE)}{purpose}")
    return "".join(f"{line}\n" for line in lines)


def _color(verdict: Verdict) -> str:
    if verdict.kind is VerdictKind.BUSY:
        return "32"
    return "35" if verdict.kind in HARMLESS else "1;31"


def _document(verdict: Verdict) -> dict[str, object]:
    return {
        "kind": verdict.kind.value,
        "sentence": verdict.sentence,
        "job": verdict.job,
        "ranks": format_ranks(verdict.ranks) or None,
        "others": format_ranks(verdict.others) or None,
        "group": verdict.group,
        "collective": verdict.collective,
        "sequence": verdict.sequence,
        "age": None if verdict.age is None else round(verdict.age, 3),
        "evidence": list(verdict.evidence),
        "next": verdict.next,
    }
