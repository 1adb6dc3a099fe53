"""What an IDE asks of values and what ranks tell of them survive the wire, and always fit into one message."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dbg_wire.codec import decode, encode
from dbg_wire.limits import MAX_ANSWER_BYTES
from dbg_wire.messages import Answer, Kind, Sender
from dbg_wire.records.inspection import (
    MAX_VARIABLE_TEXT,
    MAX_VARIABLES,
    Completion,
    ExceptionSeen,
    Inspection,
    Parts,
    Scope,
    Sight,
    SourceText,
    Variable,
    cut_to_fit,
    inspected_in,
)
from dbg_wire.records.record import checked, size_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
SERIALS = st.integers(0, 2**32 - 1)
COUNTS = st.integers(0, 2**53)
QUESTIONS = st.builds(
    Inspection,
    sight=st.sampled_from(Sight),
    scope=st.sampled_from(Scope),
    handle=SERIALS,
    name=TEXTS,
    text=TEXTS,
    begin=COUNTS,
    count=COUNTS,
    parts=st.sampled_from(Parts),
    runs=st.booleans(),
)


@given(QUESTIONS)
def test_questions_are_read_as_they_were_written(question: Inspection) -> None:
    assert checked(question) == question


def test_each_record_is_read_as_what_it_is() -> None:
    records = (
        Completion(text="width", begin=7, length=1),
        SourceText(path="/x.py", begin=0, total=2, lines="a\nb"),
        ExceptionSeen(type="ValueError", text="bad", traceback="Traceback", is_uncaught=False),
    )
    told = inspected_in(cut_to_fit(records))
    assert (*told.completions, *told.sources, told.exception) == records


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(['"', "[", "{", "\\", "\x00", "é", "日", "\U0001f600", "x"]), st.integers(1, MAX_VARIABLES))
def test_any_list_of_values_fits_into_one_message(character: str, count: int) -> None:
    long = character * MAX_VARIABLE_TEXT
    one = Variable(name=long[:200], text=long, type=long[:200], expression=long[:1000], handle=2**32 - 1)
    rows = cut_to_fit([one] * count)
    told = decode(encode(Answer(request=1, kind=Kind.VALUE, text="", rows=rows)), Sender.AGENT)
    assert isinstance(told, Answer)
    assert size_of(told) <= MAX_ANSWER_BYTES
    variables = inspected_in(told.rows).variables
    assert len(variables) == count
    assert all(long.startswith(seen.text.removesuffix("…")) and len(seen.text) >= 100 for seen in variables)
    assert {(seen.name, seen.type, seen.handle) for seen in variables} == {(one.name, one.type, one.handle)}
