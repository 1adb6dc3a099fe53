"""What the audit log says of questions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.audit.entries import text_of
from dbg_wire.messages import Action, Question
from dbg_wire.messages.declared import AnyInquiry
from dbg_wire.records.beside import command_line
from dbg_wire.records.breakpoints import BreakpointsWish, BreakpointWish, LineOfFile
from dbg_wire.records.inspection import Inspection, Scope, Sight

WISH = BreakpointsWish(
    clear=(LineOfFile(file="/a.py", line=3),),
    set=(
        BreakpointWish(file="/a.py", line=7, condition="x > 1", hits="3"),
        BreakpointWish(file="/b.py", line=1, log="x is {x}"),
    ),
)


def said(
    action: Action, text: str = "", inquiry: AnyInquiry | None = None, *, audits_input: bool = False
) -> str | None:
    question = Question(request=1, keys=("k",), action=action, seconds=1.0, text=text, inquiry=inquiry)
    return text_of(question, audits_input=audits_input)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (Inspection(sight=Sight.VALUE, text="loss.item()"), "loss.item()"),
        (Inspection(sight=Sight.ASSIGN, name="lr", text="0.1"), "lr = 0.1"),
        (Inspection(sight=Sight.PARTS, scope=Scope.GLOBALS), "globals"),
        (Inspection(sight=Sight.PARTS, handle=12), "value 12"),
        (Inspection(sight=Sight.SOURCE, text="/a.py"), "source /a.py"),
        (Inspection(sight=Sight.EXCEPTION), "exception"),
    ],
)
def test_a_look_into_a_rank_is_noted_in_words(asked: Inspection, text: str) -> None:
    assert said(Action.INSPECT, inquiry=asked) == text


def test_what_is_typed_just_now_is_noted_only_with_the_keys() -> None:
    asked = Inspection(sight=Sight.COMPLETIONS, text="passw", begin=5)
    assert said(Action.INSPECT, inquiry=asked) is None
    assert said(Action.INSPECT, inquiry=asked, audits_input=True) == "completions passw"


def test_breakpoints_are_noted_by_their_places() -> None:
    expected = "clear /a.py:3, set /a.py:7 if x > 1 hits 3, set /b.py:1 log x is {x}"
    assert said(Action.BREAKPOINTS, inquiry=WISH) == expected
    assert said(Action.BREAKPOINTS) == ""


def test_a_command_is_noted_as_a_shell_has_it() -> None:
    assert said(Action.EXEC, inquiry=command_line(["ls", "a b"])) == "ls 'a b'"


@given(text=st.text())
def test_any_other_text_is_noted_as_it_is(text: str) -> None:
    assert said(Action.EVAL, text) == text
