"""A message is one short line in a log, without what a person typed or a program holds."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dbg_wire.codec import MAX_LINE, LogForm, encode, log_form
from dbg_wire.messages import (
    Action,
    Answer,
    Complete,
    Completions,
    Kind,
    Message,
    Notice,
    Probe,
    Question,
    RankReport,
    Refusal,
    Reply,
    Report,
    Source,
    StopInfo,
)
from dbg_wire.records.inspection import PartsQuestion
from dbg_wire.records.ranks import Place, RankState
from dbg_wire.records.record import bound_of, hints_of, name_of
from tests.unit.wire.values import messages

WHERE = Place(file="/home/me/train.py", line=41, function="step")
HIDDEN = "hunter2"
STOPPED = (
    "report report=(state=stopped stop=(number=1 reason=crash where=/home/me/train.py:41 age=0.25 "
    "thread=<1 characters> detail=<11 characters>))"
)


@settings(max_examples=50)
@given(messages)
def test_every_message_is_one_printable_line(message: Message) -> None:
    line = log_form(message)
    assert line.split(" ")[0] == name_of(type(message))
    assert line.isprintable()
    assert len(line) <= MAX_LINE + 1


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (Probe(), "probe"),
        (Reply(prompt=31, generation=4, text="p loss"), "reply prompt=31 generation=4 text=<6 characters>"),
        (Refusal(code="gone", text="it\x1b[2J"), "refusal code=gone text=it\\x1b[2J"),
        (
            Report(
                report=RankReport(
                    state=RankState.STOPPED,
                    stop=StopInfo(number=1, reason="crash", where=WHERE, age=0.25, thread="a", detail="KeyError: 7"),
                )
            ),
            STOPPED,
        ),
        (
            Question(request=1, keys=("a", "b"), action=Action.EVAL, seconds=10.0, text="loss"),
            "question request=1 keys=<2 elements> action=eval seconds=10.0 text=<4 characters>",
        ),
    ],
)
def test_what_a_line_says(message: Message, line: str) -> None:
    assert log_form(message) == line
    assert str(LogForm(message)) == line


@pytest.mark.parametrize(
    "message",
    [
        Reply(prompt=1, generation=1, text=HIDDEN),
        Question(
            request=1, keys=(), action=Action.COMMAND, seconds=1.0, text=HIDDEN, inquiry=PartsQuestion(of=(HIDDEN,))
        ),
        Answer(request=1, kind=Kind.VALUE, text=HIDDEN, rows=(HIDDEN,), digest=HIDDEN, exact=HIDDEN),
        Completions(request=1, matches=(HIDDEN,)),
        Source(where=WHERE, first=1, lines=(HIDDEN,), breakpoints=()),
        Notice(text=HIDDEN),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_somebody_typed_or_a_program_holds_is_not_shown(message: Message) -> None:
    assert HIDDEN in encode(message)
    assert HIDDEN not in log_form(message)


@settings(max_examples=50)
@given(messages, st.text(st.characters(categories=["Lo"]), min_size=12, max_size=12))
def test_no_text_without_bounds_is_shown_whatever_the_message(message: Message, hidden: str) -> None:
    kind = type(message)
    values = {name: getattr(message, name) for name in kind.__struct_fields__}
    assume(hidden not in log_form(message))
    for name, hint in hints_of(kind).items():
        bound = bound_of(hint)
        if isinstance(values[name], str) and bound is not None and not (bound.extra or {})["is_shown"]:
            values[name] = hidden
    if isinstance(message, Complete):
        values |= {"begin": 0, "end": 0}
    assert hidden not in log_form(kind(**values))
