"""A record is right when it is read or fitted, frozen, and equal by what it holds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbg_wire.codec import decode, encode
from dbg_wire.messages import (
    KINDS_OF_AGENTS,
    REPORTED_STATES,
    Answer,
    Complete,
    Greet,
    Message,
    RankReport,
)
from dbg_wire.records.record import Record, checked, fitted, hints_of
from tests.unit.wire.values import kinds, wished


@settings(max_examples=20)
@given(st.data())
@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_nothing_that_a_program_holds_keeps_a_message_from_being_made(kind: type[Record], data: st.DataObject) -> None:
    values = {name: data.draw(wished(hint)) for name, hint in hints_of(kind).items()}
    if kind is Complete:
        values |= {"begin": 0, "end": 0}
    if kind is Greet:
        values["name"] = "me@login1"
    if kind is RankReport:
        values["state"] = data.draw(st.sampled_from(sorted(REPORTED_STATES)))
    if kind is Answer:
        values["kind"] = data.draw(st.sampled_from(sorted(KINDS_OF_AGENTS)))
    values.pop("registration", None)
    made = fitted(kind, **values)
    assert checked(made) == made
    if isinstance(made, Message):
        assert decode(encode(made), next(iter(made.sender))) == made
