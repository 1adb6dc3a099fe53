"""What the audit log says of a question: its text, or what else it asks in words. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from dbg_wire.messages import Question
from dbg_wire.records.beside import CommandLine
from dbg_wire.records.inspection import Inspection, Sight
from dbg_wire.records.line_breakpoints import BreakpointsWish, BreakpointWish


def text_of(question: Question, *, audits_input: bool) -> str | None:
    """Return what to note of a question; None for one that holds what somebody types just now, which is input."""
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
