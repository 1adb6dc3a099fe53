"""Verdicts as text and as JSON: a sentence, its evidence, and the command to type next. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dbg_client.views.groups import paint
from dbg_client.why.lines import evidence_of
from dbg_client.why.sentences import COLUMNS, sentence_of
from dbg_client.why.verdict import HARMLESS, Certainty, NextStep, Purpose, Verdict, VerdictKind
from dbg_wire.errors import Remedy, printable
from dbg_wire.rank_set import format_ranks

if TYPE_CHECKING:
    from dbg_client.why.explain import Explanation

MAX_LINE = 1000
"""Characters of one line; what ranks tell in it has narrower bounds."""

INDENT = "  "

LEAST_COLUMNS = 40
"""Columns for which lines are broken at least: in fewer, every line would be a word."""

PURPOSES: Mapping[Purpose, str] = {
    Purpose.OPENS: "opens the debugger in which it stands",
    Purpose.BREAKS_IN: "breaks in, and opens the debugger there",
    Purpose.STACKS: "shows their stacks",
    Purpose.STACK: "shows its stack",
    Purpose.LAST_SEEN: "shows where it was last seen",
    Purpose.LAST_STACK: "shows its last stack",
    Purpose.END: "shows how it ended",
    Purpose.TELLS_HANG: "tells whether it hangs",
}
"""What the next step is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What is told of the ``ranks`` of one job: a sentence, lines of evidence below it, and what to do next.

    ``group`` and ``collective`` are what it is about, if it is about such.
    """

    job: str
    sentence: str
    certainty: Certainty | None = None
    ranks: tuple[int, ...] = ()
    group: str | None = None
    collective: str | None = None
    evidence: tuple[str, ...] = ()
    next: NextStep | None = None


def tell(verdict: Verdict, columns: int | None = None) -> Diagnosis:
    """Return a verdict in words, for a reader with so many columns."""
    width = max(columns or COLUMNS, LEAST_COLUMNS)
    return Diagnosis(
        job=verdict.job,
        sentence=sentence_of(verdict, width),
        certainty=verdict.certainty,
        ranks=verdict.ranks,
        group=verdict.group,
        collective=verdict.collective,
        evidence=tuple(evidence_of(verdict, width)),
        next=verdict.next,
    )


def show_verdicts(
    verdicts: Sequence[Verdict], *, color: bool, columns: int | None = None, word: Callable[[Remedy], str] | None = None
) -> str:
    """Return each verdict as a sentence, its evidence, and the command to type next, or what ``word`` makes of it.

    Lines are broken between words to fit into so many columns; None leaves them whole.
    """
    return "".join(shown(tell(one, columns), _color(one) if color else None, columns, word) for one in verdicts)


def verdicts_document(explanation: Explanation) -> dict[str, object]:
    """Return what becomes the JSON document."""
    return {
        "schema": 1,
        "asked": explanation.asked,
        "answered": explanation.answered,
        "verdicts": [verdict_document(verdict) for verdict in explanation.verdicts],
    }


def shown(told: Diagnosis, color: str | None, columns: int | None, word: Callable[[Remedy], str] | None = None) -> str:
    """Return a sentence in a colour, its evidence, and the command to type next."""
    job = f"{printable(told.job, 200)}: " if told.job else ""
    lines = [paint(line, color) for line in _broken(printable(f"{job}{told.sentence}", MAX_LINE), columns)]
    for evidence in told.evidence:
        lines += _broken(f"{INDENT}{printable(evidence, MAX_LINE)}", columns)
    if told.next is not None:
        typed = f"{printable(told.next.command, MAX_LINE)}        ({PURPOSES[told.next.purpose]})"
        lines.append(f"try: {typed if word is None else word(told.next.remedy)}")
    return "".join(f"{line}\n" for line in lines)


def _broken(line: str, columns: int | None) -> list[str]:
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


def document_of(told: Diagnosis) -> dict[str, object]:
    """Return what JSON has of any diagnosis."""
    return {
        "sentence": told.sentence,
        "certainty": None if told.certainty is None else told.certainty.value,
        "job": told.job,
        "ranks": format_ranks(told.ranks) or None,
        "group": told.group,
        "collective": told.collective,
        "evidence": list(told.evidence),
        "next": None if told.next is None else told.next.command,
    }


def verdict_document(verdict: Verdict) -> dict[str, object]:
    """Return what JSON has of a verdict."""
    return {
        "kind": verdict.kind.value,
        **document_of(tell(verdict)),
        "others": format_ranks(verdict.others) or None,
        "cause": None if verdict.cause is None else verdict.cause.value,
        "sequence": verdict.sequence,
        "age": None if verdict.age is None else round(verdict.age, 3),
    }
