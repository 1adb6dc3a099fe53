"""What an IDE asks of values and what ranks tell of them survive the wire, and always fit into one message."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbg_wire.codec import decode, encode
from dbg_wire.errors import PeerError
from dbg_wire.inspection import (
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
    decode_inspected,
    decode_inspection,
    encode_inspected,
    encode_inspection,
)
from dbg_wire.messages import Answer, Kind, Sender

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
SERIALS = st.integers(0, 2**32 - 1)
COUNTS = st.integers(0, 2**53)
VARIABLES = st.builds(
    Variable,
    name=TEXTS,
    text=TEXTS,
    type=TEXTS,
    expression=TEXTS,
    handle=SERIALS,
    named=COUNTS,
    indexed=COUNTS,
    is_fixed=st.booleans(),
    is_lazy=st.booleans(),
)
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
    assert decode_inspection(encode_inspection(question)) == question


@given(st.lists(VARIABLES, max_size=5))
def test_variables_are_read_as_they_were_written(variables: list[Variable]) -> None:
    assert decode_inspected(encode_inspected(variables)).variables == tuple(variables)


def test_each_record_is_read_as_what_it_is() -> None:
    records = (
        Completion(text="width", begin=7, length=1),
        SourceText(path="/x.py", begin=0, total=2, lines="a\nb"),
        ExceptionSeen(type="ValueError", text="bad", traceback="Traceback", is_uncaught=False),
    )
    told = decode_inspected(encode_inspected(records))
    assert (*told.completions, *told.sources, told.exception) == records


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(['"', "[", "{", "\\", "\x00", "é", "日", "\U0001f600", "x"]), st.integers(1, MAX_VARIABLES))
def test_any_list_of_values_fits_into_one_message(character: str, count: int) -> None:
    long = character * MAX_VARIABLE_TEXT
    one = Variable(name=long[:200], text=long, type=long[:200], expression=long[:1000], handle=2**32 - 1)
    rows = encode_inspected([one] * count)
    told = decode(encode(Answer(request=1, kind=Kind.VALUE, text="", rows=rows)), Sender.AGENT)
    assert isinstance(told, Answer)
    variables = decode_inspected(told.rows).variables
    assert len(variables) == count
    assert all(long.startswith(seen.text.removesuffix("…")) and len(seen.text) >= 100 for seen in variables)
    assert {(seen.name, seen.type, seen.handle) for seen in variables} == {(one.name, one.type, one.handle)}


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"sight": "all"}', '{"sight": "parts", "handle": -1}', "[" * 10_000, '{"sight": 3}']
)
def test_any_other_question_is_refused(text: str) -> None:
    with pytest.raises(PeerError, match="no question about values"):
        decode_inspection(text)


@pytest.mark.parametrize("rows", [[], ["parts"], ["inspection", "{"], ["inspection", "[1, 2]"], ["inspection", "[]"]])
def test_any_other_answer_is_refused(rows: list[str]) -> None:
    with pytest.raises(PeerError):
        decode_inspected(rows)


@pytest.mark.parametrize("fields", ['"name": "x"', '"name": 1, "text": ""', '"name": "x", "text": "", "named": -1'])
def test_a_wrong_record_is_refused_by_its_field(fields: str) -> None:
    with pytest.raises(PeerError, match=r"values that can't be read \(row.*(text|name)"):
        decode_inspected(["inspection", f'{{"row":"variable",{fields}}}'])
