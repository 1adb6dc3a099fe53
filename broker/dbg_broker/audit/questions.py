"""What the audit log says of a question: its text, in words where the message has it as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from dbg_wire.errors import PeerError
from dbg_wire.inspection import Inspection, Sight, decode_inspection
from dbg_wire.line_breakpoints import BreakpointsWish, BreakpointWish, decode_wish
from dbg_wire.messages import Action, Question


def text_of(question: Question, *, audits_input: bool) -> str | None:
    """Return what to note of a question; None for one that holds what somebody types just now, which is input.

    A text that can't be read is noted as it is: the rank refuses it.
    """
    try:
        if question.action is Action.INSPECT:
            asked = decode_inspection(question.text)
            return None if asked.sight is Sight.COMPLETIONS and not audits_input else _of_inspection(asked)
        if question.action is Action.BREAKPOINTS:
            return ", ".join(_of_wish(decode_wish(question.text)))
    except PeerError:
        pass
    return question.text


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
