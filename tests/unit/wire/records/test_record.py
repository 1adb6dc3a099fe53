"""A record is right when it is read or fitted, frozen, and equal by what it holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from dbg_wire.messages import (
    MESSAGES,
    Answer,
    Complete,
    Kind,
    Message,
    Notice,
)
from dbg_wire.records.bounds import InvalidMessage
from dbg_wire.records.ranks import Breakpoint, Place
from dbg_wire.records.record import Record, bound_of, checked, fitted, hints_of
from tests.conftest import Approved
from tests.unit.wire.values import base_of, messages

PLACE = Place(file="/home/me/train.py", line=41, function="step")


def test_what_no_peer_would_take_is_refused_by_name(approved: Approved) -> None:
    with pytest.raises(InvalidMessage, match=r"^place\.line is -1, below 0$"):
        checked(PLACE.replace(line=-1))
    with pytest.raises(InvalidMessage) as caught:
        checked(PLACE.replace(file="\udcff"))
    approved(str(caught.value))
    assert checked(PLACE) == PLACE


def test_two_fields_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidMessage, match="complete is about 2 to 5 of 4 characters"):
        Complete(request=1, prompt=1, generation=1, line="p lo", begin=2, end=5)


def test_a_breakpoint_is_the_same_one_when_its_line_holds_another_text() -> None:
    one, other = (Breakpoint(file="/f", line=1, text=text) for text in ("a", "b"))
    assert (one, hash(one)) == (other, hash(other))
    assert one != Breakpoint(file="/f", line=2, text="a")


def kinds() -> list[type[Record]]:
    """Return every class of record that a field of a message leads to, and the messages."""
    found: dict[type[Record], None] = {}
    waiting: list[Any] = list(MESSAGES)
    while waiting:
        kind = waiting.pop()
        if kind in found:
            continue
        found[kind] = None
        for hint in hints_of(kind).values():
            base = base_of(hint)
            inner = base.__args__[0] if hasattr(base, "__args__") else base
            if isinstance(inner, type) and issubclass(inner, Record):
                waiting.append(inner)
    return list(found)


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_no_field_is_without_a_bound(kind: type[Record]) -> None:
    for name, hint in hints_of(kind).items():
        base = base_of(hint)
        items = getattr(base, "__args__", (None,))[0]
        if base in (int, float, str) or items is not None:
            assert bound_of(hint) is not None, name
        if items in (int, float, str):
            raise AssertionError(f"the elements of {name} have no bound")


@given(messages)
def test_what_is_right_is_left_as_it_is(message: Message) -> None:
    values = {name: getattr(message, name) for name in message.__struct_fields__}
    assert fitted(type(message), **values) == message


def test_what_is_too_long_is_cut_and_says_so() -> None:
    assert fitted(Notice, text="x" * 20_000).text == "x" * (16 * 1024 - 1) + "…"
    assert fitted(Answer, request=2**60, kind=Kind.VALUE, text="", frames=(PLACE,) * 300).frames == (PLACE,) * 256
    assert fitted(Place, file="/tmp/\udcff", line=10**12, function="f") == Place(
        file="/tmp/\\udcff", line=10**9, function="f"
    )
