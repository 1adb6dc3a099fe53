"""Actions of one terminal at a rank, in the words in which the other terminals there are told of them. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from dbg_wire.errors import printable
from dbg_wire.messages import Action, Question
from dbg_wire.records.beside import CommandLine
from dbg_wire.records.breakpoints import BreakpointsWish, BreakpointWish, LineOfFile
from dbg_wire.records.inspection import Inspection, PartsQuestion, Sight

MAX_SHOWN = 80
"""Characters of a command or an expression that others are shown, so that a sentence fits into two lines."""

MAX_PLACES = 3
"""Breakpoints that a sentence names."""

_ENDING = frozenset({"c", "cont", "continue", "q", "quit", "exit"})
"""Commands of pdb by which a stop ends."""


class VisibleAction(NamedTuple):
    """Something done at a rank: what, without who did it, and whether the stop ends by it."""

    text: str
    ends_stop: bool = False


def visible_action(question: Question) -> VisibleAction | None:
    """Return what a question does at a rank; None for one that only looks, and for one that no rank would read."""
    if question.withdrawn:
        return None
    return _PLAIN.get(question.action) or _of_what_is_asked(question)


_PLAIN = {
    Action.CONTINUE: VisibleAction("let it go on", ends_stop=True),
    Action.RELEASE: VisibleAction("let it go on", ends_stop=True),
    Action.KILL: VisibleAction("killed it", ends_stop=True),
    Action.INTERRUPT: VisibleAction("broke in"),
}


def _of_what_is_asked(question: Question) -> VisibleAction | None:
    action, text, asked = question.action, question.text, question.inquiry
    if action is Action.EVAL:
        return None if isinstance(asked, PartsQuestion) else VisibleAction(f"asked {_quoted(text)}")
    if action is Action.COMMAND:
        return VisibleAction(f"ran {_quoted(text)}", ends_stop=text.strip() in _ENDING)
    if action is Action.EXEC and isinstance(asked, CommandLine):
        return VisibleAction(f"ran {_quoted(shlex.join(asked.words))} beside it")
    if action is Action.INSPECT and isinstance(asked, Inspection):
        return _of_inspection(asked)
    return _of_breakpoints(asked) if action is Action.BREAKPOINTS and isinstance(asked, BreakpointsWish) else None


def _of_inspection(asked: Inspection) -> VisibleAction | None:
    if asked.sight is Sight.ASSIGN:
        return VisibleAction(f"set {_quoted(asked.name)} to {_quoted(asked.text)}")
    if asked.sight is Sight.VALUE and asked.runs:
        return VisibleAction(f"ran {_quoted(asked.text)}")
    return None


def _of_breakpoints(wish: BreakpointsWish) -> VisibleAction | None:
    # An IDE clears the breakpoints of a file, and sets them anew with the one that its user has added.
    if wish.set:
        return VisibleAction(f"set {_breakpoints(wish.set)}")
    return VisibleAction(f"cleared {_breakpoints(wish.clear)}") if wish.clear else None


def _breakpoints(places: Sequence[BreakpointWish | LineOfFile]) -> str:
    named = [printable(f"{one.file.rpartition('/')[2]}:{one.line}", MAX_SHOWN) for one in places[:MAX_PLACES]]
    more = f" and {len(places) - MAX_PLACES} more" if len(places) > MAX_PLACES else ""
    return f"{'a breakpoint' if len(places) == 1 else 'breakpoints'} at {', '.join(named)}{more}"


def _quoted(text: str) -> str:
    first, line_feed, _ = text.strip().partition("\n")
    return f"`{printable(first, MAX_SHOWN)}{' …' if line_feed else ''}`"
