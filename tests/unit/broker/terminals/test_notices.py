"""Questions as deeds in words, and how many of them a terminal that looks on is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.terminals.notices import (
    MAX_DOERS,
    MAX_SHOWN,
    SECONDS_FOR_ONE,
    TOLD_AT_ONCE,
    NoticePace,
    NoticePaces,
    VisibleAction,
    visible_action,
)
from dbg_wire.messages import Action, Question
from dbg_wire.messages.declared import AnyInquiry
from dbg_wire.records.beside import command_line
from dbg_wire.records.breakpoints import BreakpointsWish, BreakpointWish, LineOfFile
from dbg_wire.records.inspection import Inspection, PartsQuestion, Sight


def deed(action: Action, asked: str | AnyInquiry = "", **changes: object) -> VisibleAction | None:
    fields: dict[str, object] = {"request": 1, "keys": ("key",), "action": action, "seconds": 1.0}
    fields["text" if isinstance(asked, str) else "inquiry"] = asked
    return visible_action(Question(**{**fields, **changes}))  # type: ignore[arg-type]


def inspection(sight: Sight, text: str = "", **changes: object) -> Inspection:
    return Inspection(sight=sight, text=text, **changes)  # type: ignore[arg-type]


def lines(*numbers: int) -> tuple[LineOfFile, ...]:
    return tuple(LineOfFile(file="/home/me/train.py", line=number) for number in numbers)


SETS = BreakpointsWish(set=(BreakpointWish(file="/home/me/train.py", line=41),), clear=lines(7))


@pytest.mark.parametrize(
    ("action", "asked", "told"),
    [
        (Action.CONTINUE, "", VisibleAction("let it go on", ends_stop=True)),
        (Action.RELEASE, "", VisibleAction("let it go on", ends_stop=True)),
        (Action.KILL, "", VisibleAction("killed it", ends_stop=True)),
        (Action.INTERRUPT, "", VisibleAction("broke in")),
        (Action.EVAL, " loss ", VisibleAction("asked `loss`")),
        (Action.COMMAND, "n", VisibleAction("ran `n`")),
        (Action.COMMAND, " c ", VisibleAction("ran `c`", ends_stop=True)),
        (Action.COMMAND, "for x in y:\n  print(x)", VisibleAction("ran `for x in y: …`")),
        (Action.COMMAND, "!print('\x1b[2J')", VisibleAction(r"ran `!print('\x1b[2J')`")),
        (Action.EXEC, command_line(["ls", "a b"]), VisibleAction("ran `ls 'a b'` beside it")),
        (Action.INSPECT, inspection(Sight.ASSIGN, "0.5", name="loss"), VisibleAction("set `loss` to `0.5`")),
        (Action.INSPECT, inspection(Sight.VALUE, "x = 1", runs=True), VisibleAction("ran `x = 1`")),
        (Action.BREAKPOINTS, SETS, VisibleAction("set a breakpoint at train.py:41")),
        (Action.BREAKPOINTS, BreakpointsWish(clear=lines(7)), VisibleAction("cleared a breakpoint at train.py:7")),
        (
            Action.BREAKPOINTS,
            BreakpointsWish(clear=lines(1, 2, 3, 4, 5)),
            VisibleAction("cleared breakpoints at train.py:1, train.py:2, train.py:3 and 2 more"),
        ),
    ],
)
def test_what_is_done_has_words(action: Action, asked: str | AnyInquiry, told: VisibleAction) -> None:
    assert deed(action, asked) == told


@pytest.mark.parametrize(
    ("action", "asked", "changes"),
    [
        (Action.WHERE, "", {}),
        (Action.SCREEN, "", {}),
        (Action.NATIVE, "", {}),
        (Action.RAS, "", {}),
        (Action.EVAL, PartsQuestion(of=("d",)), {}),
        (Action.INTERRUPT, "", {"withdrawn": True}),
        (Action.EXEC, "ls", {}),
        (Action.EXEC, SETS, {}),
        (Action.INSPECT, inspection(Sight.VALUE, "loss"), {}),
        (Action.INSPECT, inspection(Sight.PARTS), {}),
        (Action.INSPECT, "loss", {}),
        (Action.BREAKPOINTS, BreakpointsWish(), {}),
    ],
)
def test_what_only_looks_is_told_to_nobody(action: Action, asked: str | AnyInquiry, changes: dict[str, object]) -> None:
    assert deed(action, asked, **changes) is None


def test_every_action_is_told_or_only_looks() -> None:
    looking = {Action.WHERE, Action.SCREEN, Action.NATIVE, Action.RAS, Action.SAMPLE}
    asked: dict[Action, AnyInquiry] = {Action.EXEC: command_line(["ls"]), Action.BREAKPOINTS: SETS}
    asked[Action.INSPECT] = inspection(Sight.ASSIGN, "0.5", name="loss")
    assert {action for action in Action if deed(action, asked.get(action, "loss")) is None} == looking


@given(st.sampled_from(list(Action)), st.text())
def test_words_are_short_and_can_do_nothing_to_a_terminal(action: Action, text: str) -> None:
    done = deed(action, text)
    assert done is None or (done.text.isprintable() and len(done.text) < MAX_SHOWN + 30)


def test_a_flood_is_told_at_once_and_then_summed_up() -> None:
    pace = NoticePace(0.0)
    assert [pace.may_tell(0.0) for _ in range(TOLD_AT_ONCE + 1)] == [True] * TOLD_AT_ONCE + [False]
    assert pace.count("ran `n`", 0.0) == SECONDS_FOR_ONE
    assert not pace.may_tell(0.5 * SECONDS_FOR_ONE)
    assert pace.count("ran `s`", 0.5 * SECONDS_FOR_ONE) is None
    assert pace.more(SECONDS_FOR_ONE) == "ran `s`, and 1 more before that"
    assert pace.more(SECONDS_FOR_ONE) is None
    assert not pace.may_tell(1.5 * SECONDS_FOR_ONE)
    pace.count("ran `w`", 1.5 * SECONDS_FOR_ONE)
    assert pace.more(2 * SECONDS_FOR_ONE) == "ran `w`"
    assert pace.may_tell(3 * SECONDS_FOR_ONE)


def test_a_terminal_and_the_end_of_a_stop_have_paces_of_their_own() -> None:
    paces = NoticePaces("key")
    step, end = VisibleAction("ran `n`"), VisibleAction("let it go on", ends_stop=True)
    for number in (1, 2):
        for deed in (step, end):
            told = [paces.of(number, deed, 0.0).may_tell(0.0) for _ in range(TOLD_AT_ONCE + 1)]
            assert told == [True] * TOLD_AT_ONCE + [False]
    assert len(paces) == 4
    for number in range(10, 30):
        paces.of(number, step, 0.0).may_tell(0.0)
    assert len(paces) == MAX_DOERS + 1
    # Those that have done nothing for long make room.
    paces.of(40, step, 1000.0)
    assert len(paces) == 1


@given(st.lists(st.tuples(st.integers(1, 100), st.floats(0, 0.2)), max_size=300))
def test_of_any_flood_few_are_told_and_all_are_counted(deeds: list[tuple[int, float]]) -> None:
    paces, now, told, due = NoticePaces("key"), 0.0, 0, set()
    for doer, later in deeds:
        now += later
        pace = paces.of(doer, VisibleAction("ran `n`"), now)
        if pace.may_tell(now):
            told += 1
        elif pace.count("ran `n`", now) is not None:
            due.add(pace)
    # A pace that has something counted stays, and one sentence tells of all of it.
    assert all(pace.more(now) for pace in due)
    assert len(due) <= len(paces) <= MAX_DOERS + 1
    assert told <= len(deeds)
