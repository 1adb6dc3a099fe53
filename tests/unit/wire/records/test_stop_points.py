"""Stops are read as they are typed, and what can't be read is refused by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_wire.errors import BadInput
from dbg_wire.records.stop_points import MAX_STOPS, StopAt, StopIn, parse_stop_at, parse_stop_in, parse_stops
from tests.conftest import Approved


@pytest.mark.parametrize(
    ("text", "stop"),
    [
        ("train.py:40", StopAt(file="train.py", line=40)),
        (" a b/c,d.py:7 ", StopAt(file="a b/c,d.py", line=7)),
        ("/x/train.py:40, step == 3", StopAt(file="/x/train.py", line=40, condition="step == 3")),
        ("t.py:4,x[1:2] and y", StopAt(file="t.py", line=4, condition="x[1:2] and y")),
        ("train:40, d == {3:4, 5:6}", StopAt(file="train", line=40, condition="d == {3:4, 5:6}")),
    ],
)
def test_a_place_is_read(text: str, stop: StopAt) -> None:
    assert parse_stop_at(text) == stop
    assert parse_stop_at(str(stop).removeprefix("--stop-at ")) == stop


@pytest.mark.parametrize("text", ["", "train.py", "train.py:", "train.py:0", ":3", "train.py:3,", "t.py:x", "t.py:3 x"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_stop_at(text)


def test_a_condition_that_is_no_expression_is_refused(approved: Approved) -> None:
    with pytest.raises(BadInput) as caught:
        parse_stop_at("train.py:3, x ==")
    approved(str(caught.value))


def test_a_function_is_read() -> None:
    assert parse_stop_in("fairseq2.train:Trainer.step") == StopIn(module="fairseq2.train", function="Trainer.step")
    for text in ("train", "train:", ":f", "train:f()", "train.py:3", "a..b:f"):
        with pytest.raises(BadInput):
            parse_stop_in(text)


@given(st.text(), st.text())
def test_no_text_makes_reading_the_environment_raise(stop_at: str, stop_in: str) -> None:
    parse_stops(stop_at, stop_in)


def test_the_good_ones_of_the_environment_count_up_to_a_bound() -> None:
    stops, problems = parse_stops("a.py:1\n\nnonsense\nb.py:2\n", "m:f")
    assert [str(stop) for stop in stops] == ["--stop-at a.py:1", "--stop-at b.py:2", "--stop-in m:f"]
    assert len(problems) == 1
    stops, problems = parse_stops("a.py:1\n" * (MAX_STOPS + 1), "")
    assert (len(stops), len(problems)) == (MAX_STOPS, 1)
