"""Questions as deeds in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.terminals.notices import (
    MAX_SHOWN,
    VisibleAction,
    visible_action,
)
from dbg_wire.messages import Action, Question
from dbg_wire.messages.declared import AnyInquiry
from dbg_wire.records.inspection import (
    BreakpointChanges,
    BreakpointSpec,
    Inspection,
    InspectionKind,
    LineOfFile,
    command_line,
)
from dbg_wire.records.numbers import NumbersQuestion


def deed(action: Action, asked: str | AnyInquiry = "", **changes: object) -> VisibleAction | None:
    fields: dict[str, object] = {"request": 1, "keys": ("key",), "action": action, "seconds": 1.0}
    fields["text" if isinstance(asked, str) else "inquiry"] = asked
    return visible_action(Question(**{**fields, **changes}))  # type: ignore[arg-type]


def inspection(sight: InspectionKind, text: str = "", **changes: object) -> Inspection:
    return Inspection(sight=sight, text=text, **changes)  # type: ignore[arg-type]


def lines(*numbers: int) -> tuple[LineOfFile, ...]:
    return tuple(LineOfFile(file="/home/me/train.py", line=number) for number in numbers)


SETS = BreakpointChanges(set=(BreakpointSpec(file="/home/me/train.py", line=41),), clear=lines(7))


@pytest.mark.parametrize(
    ("action", "asked", "expected"),
    [
        (Action.KILL, "", VisibleAction("killed it", ends_stop=True)),
        (Action.INTERRUPT, "", VisibleAction("interrupted it")),
        (Action.EVAL, " loss ", VisibleAction("asked `loss`")),
        (Action.COMMAND, "n", VisibleAction("ran `n`")),
        (Action.COMMAND, " c ", VisibleAction("ran `c`", ends_stop=True)),
        (Action.COMMAND, "for x in y:\n  print(x)", VisibleAction("ran `for x in y: …`")),
        (Action.COMMAND, "!print('\x1b[2J')", VisibleAction(r"ran `!print('\x1b[2J')`")),
        (Action.EXEC, command_line(["ls", "a b"]), VisibleAction("ran `ls 'a b'` next to it")),
        (Action.INSPECT, inspection(InspectionKind.ASSIGN, "0.5", name="loss"), VisibleAction("set `loss` to `0.5`")),
        (Action.INSPECT, inspection(InspectionKind.VALUE, "x = 1", runs=True), VisibleAction("ran `x = 1`")),
        (Action.BREAKPOINTS, SETS, VisibleAction("set a breakpoint at train.py:41")),
        (Action.BREAKPOINTS, BreakpointChanges(clear=lines(7)), VisibleAction("cleared a breakpoint at train.py:7")),
        (
            Action.BREAKPOINTS,
            BreakpointChanges(clear=lines(1, 2, 3, 4, 5)),
            VisibleAction("cleared breakpoints at train.py:1, train.py:2, train.py:3 and 2 more"),
        ),
    ],
)
def test_visible_action_has_a_text(action: Action, asked: str | AnyInquiry, expected: VisibleAction) -> None:
    assert deed(action, asked) == expected


@pytest.mark.parametrize(
    ("action", "asked", "changes"),
    [
        (Action.WHERE, "", {}),
        (Action.SCREEN, "", {}),
        (Action.NATIVE, "", {}),
        (Action.INTERRUPT, "", {"withdrawn": True}),
        (Action.EXEC, "ls", {}),
        (Action.EXEC, SETS, {}),
        (Action.INSPECT, inspection(InspectionKind.VALUE, "loss"), {}),
        (Action.INSPECT, inspection(InspectionKind.PARTS), {}),
        (Action.INSPECT, "loss", {}),
        (Action.BREAKPOINTS, BreakpointChanges(), {}),
        (Action.NUMBERS, NumbersQuestion(), {}),
    ],
)
def test_read_only_action_has_no_text(action: Action, asked: str | AnyInquiry, changes: dict[str, object]) -> None:
    assert deed(action, asked, **changes) is None


def test_every_action_has_a_text_or_is_read_only() -> None:
    looking = {Action.WHERE, Action.SCREEN, Action.NATIVE, Action.SAMPLE}
    asked: dict[Action, AnyInquiry] = {Action.EXEC: command_line(["ls"]), Action.BREAKPOINTS: SETS}
    asked[Action.INSPECT] = inspection(InspectionKind.ASSIGN, "0.5", name="loss")
    asked[Action.NUMBERS] = NumbersQuestion(nan=True)
    assert {action for action in Action if deed(action, asked.get(action, "loss")) is None} == looking


@given(st.sampled_from(list(Action)), st.text())
def test_texts_are_short_and_printable(action: Action, text: str) -> None:
    done = deed(action, text)
    assert done is None or (done.text.isprintable() and len(done.text) < MAX_SHOWN + 30)
