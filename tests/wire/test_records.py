"""A record holds nothing that a peer would refuse, wherever it is made."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbg_wire.bounds import InvalidMessage
from dbg_wire.codec import decode, encode
from dbg_wire.messages import MESSAGES, Answer, Complete, Kind, Message, Notice, RankReport, Register
from dbg_wire.ranks import Breakpoint, Coordinate, Place, RankState
from dbg_wire.records import Record, fields_of, fitted
from tests.wire.values import messages, wished

PLACE = Place(file="/home/me/train.py", line=41, function="step")


def test_a_field_is_checked_where_the_record_is_made() -> None:
    with pytest.raises(InvalidMessage, match=r"place\.line is -1, not 0 to 1000000000"):
        Place(file="f", line=-1, function="g")
    with pytest.raises(InvalidMessage, match=r"place\.line is -1"):
        dataclasses.replace(PLACE, line=-1)


def test_a_missing_field_and_one_that_is_not_declared_are_mistakes_of_the_code() -> None:
    with pytest.raises(TypeError, match="Place lacks the field 'line'"):
        Place(file="f", function="g")  # type: ignore[call-arg] # what is tested
    with pytest.raises(TypeError, match="Place has no field 'column'"):
        Place(file="f", line=1, function="g", column=2)  # type: ignore[call-arg] # what is tested


def test_two_fields_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidMessage, match="complete is about 2 to 5 of 4 characters"):
        Complete(request=1, prompt=1, generation=1, line="p lo", begin=2, end=5)


def test_records_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        PLACE.line = 3  # type: ignore[misc] # what is tested
    with pytest.raises(dataclasses.FrozenInstanceError):
        del PLACE.line
    with pytest.raises((AttributeError, dataclasses.FrozenInstanceError)):
        PLACE.column = 3  # type: ignore[attr-defined] # what is tested


def test_records_are_equal_by_what_they_hold() -> None:
    same = Place(file="/home/me/train.py", line=41, function="step")
    assert (same, hash(same), repr(same)) == (PLACE, hash(PLACE), repr(PLACE))
    assert dataclasses.replace(PLACE, line=42) != PLACE
    assert Coordinate(axis="tp", index=1) != PLACE


def test_a_breakpoint_is_the_same_one_when_its_line_holds_another_text() -> None:
    one, other = (Breakpoint(file="/f", line=1, text=text) for text in ("a", "b"))
    assert (one, hash(one)) == (other, hash(other))


def test_dataclasses_know_records() -> None:
    assert dataclasses.asdict(PLACE) == {"file": "/home/me/train.py", "line": 41, "function": "step"}
    assert [field.name for field in dataclasses.fields(RankReport(state=RankState.RUNNING))][:2] == ["state", "stop"]


def kinds() -> list[type[Record]]:
    """Return every class of record that a field of a message leads to, and the messages."""
    found: dict[type[Record], None] = {}
    waiting: list[Any] = list(MESSAGES)
    while waiting:
        item = waiting.pop()
        if isinstance(item, type):
            found[item] = None
            waiting += [field.bound for field in fields_of(item)]
        else:
            waiting += [part for name in ("bound", "record") if (part := getattr(item, name, None)) is not None]
    return list(found)


def test_all_records_are_found() -> None:
    assert {Place, Breakpoint, Coordinate, Register} <= set(kinds())


@settings(max_examples=20)
@given(st.data())
@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_nothing_that_a_program_holds_keeps_a_message_from_being_made(kind: type[Record], data: st.DataObject) -> None:
    values = {field.name: data.draw(wished(field.bound)) for field in fields_of(kind)}
    if kind is Complete:
        values |= {"begin": 0, "end": 0}
    values.pop("registration", None)
    made = fitted(kind, **values)
    if isinstance(made, Message):
        assert decode(encode(made), next(iter(made.sender))) == made


@given(messages)
def test_what_is_right_is_left_as_it_is(message: Message) -> None:
    values = {field.name: getattr(message, field.name) for field in fields_of(type(message))}
    assert fitted(type(message), **values) == message


def test_what_is_too_long_is_cut_and_says_so() -> None:
    assert fitted(Notice, text="x" * 20_000).text == "x" * (16 * 1024 - 1) + "…"
    assert fitted(Answer, request=2**60, kind=Kind.VALUE, text="", frames=(PLACE,) * 300).frames == (PLACE,) * 256
    assert fitted(Place, file="/tmp/\udcff", line=10**12, function="f") == Place(
        file="/tmp/\\udcff", line=10**9, function="f"
    )
