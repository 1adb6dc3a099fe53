"""The answers of ranks to one question, as text and JSON. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from dbg_wire.errors import printable
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.ranks import RankInfo

MAX_NAMED = 8
"""Ranks with the same answer that are named one by one; more are counted."""


def show_answers(answers: Sequence[tuple[RankInfo, RankAnswer]]) -> str:
    """Return a line for each rank, ranks beyond MAX_NAMED with the same answer counted in one; most frequent first."""
    groups: defaultdict[tuple[Kind, str], list[str]] = defaultdict(list)
    for rank, answer in answers:
        groups[answer.kind, answer.text].append(printable(rank.address))
    lines = []
    for (kind, text), addresses in sorted(groups.items(), key=lambda item: -len(item[1])):
        said = _said(kind, text)
        if len(addresses) > MAX_NAMED:
            lines.append(f"{len(addresses)} ranks {said}")
        else:
            lines += [f"{address} {said}" for address in addresses]
    return "".join(f"{line}\n" for line in lines)


def lines_in(answer: RankAnswer) -> tuple[str, ...]:
    """Return the lines of the screen in an answer; of a line debugger, those of its output, which is the text."""
    return tuple(row for row in answer.rows if isinstance(row, str)) or tuple(answer.text.split("\n"))


def show_screen(rows: Sequence[str]) -> str:
    """Return a screen as text: every row on a line of its own, blanks at the right left out."""
    return "".join(f"{printable(row.rstrip(), 10_000)}\n" for row in rows)


def screen_document(rank: RankInfo, rows: Sequence[str]) -> dict[str, object]:
    """Return what becomes the JSON document of a screen."""
    return {"schema": 1, "address": rank.address, "job": rank.job, "screen": list(rows)}


def _said(kind: Kind, text: str) -> str:
    if kind is Kind.VALUE:
        return printable(text)
    explained = {
        Kind.ERROR: "refused",
        Kind.RUNNING: "is running",
        Kind.SILENT: "did not answer",
        Kind.LOST: "is lost",
    }[kind]
    return f"{explained} ({printable(text)})" if text else explained
