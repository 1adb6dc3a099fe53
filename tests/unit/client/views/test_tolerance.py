from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbg_client.views.tolerance import merge_near, read_floats

unhurried = settings(deadline=None)


@pytest.mark.parametrize(
    ("first", "second", "tolerance", "near"),
    [
        ("0.25", "0.2500001", 1e-6, True),
        ("0.25", "0.26", 1e-6, False),
        ("1000000.0", "1000000.5", 1e-6, True),
        ("1e-9", "2e-9", 1e-6, True),
        ("[0.25, 1.0]", "[0.25, 1.0000001]", 1e-6, True),
        ("[0.25, 1.0]", "[0.25, 1.1]", 1e-6, False),
        ("tensor(0.25)", "tensor(0.2500001)", 1e-6, True),
        ("(1, 0.5)", "(2, 0.5000001)", 1e-6, False),
        ("0.5", "-0.5", 1e-6, False),
        ("tensor scalar float32 cpu: 0.25", "tensor scalar float32 cpu: 0.2500001", 1e-6, True),
        ("(1, array 2 float64: [0.5, 1.5])", "(1, array 2 float64: [0.5, 1.5000001])", 1e-6, True),
        ("(0.5, array 100 float64)", "(0.5000001, array 100 float64)", 1e-6, False),
        ("[tensor 8x4 float32 cuda:3, 0.5]", "[tensor 8x4 float32 cuda:3, 0.5000001]", 1e-6, False),
        ("<A at 0x7f01 0.5>", "<A at 0x7f02 0.5000001>", 1e-6, True),
        ("(nan, 0.5)", "(nan, 0.5000001)", 1e-6, True),
        ("nan", "0.5", 1e6, False),
        ("inf", "1e300", 1e6, False),
        ("v1.5.2", "v1.5.3", 1e6, False),
        ("x0.5", "x0.6", 1.0, False),
    ],
)
def test_floats_alone_may_differ(first: str, second: str, tolerance: float, near: bool) -> None:
    assert (merge_near([first, second], tolerance) == [0, 0]) is near


@pytest.mark.parametrize(
    "text", ["tensor([0.1, ..., 0.2])", "0.1 … 0.2", "0.1 (values not compared)", "tensor f32[8,4096]", "3"]
)
def test_a_text_that_is_not_the_value_is_near_to_nothing(text: str) -> None:
    assert read_floats(text) is None
    assert merge_near([text, text], 1.0) == [0, 1]


def test_two_values_of_one_text_differ_in_what_it_leaves_out() -> None:
    assert merge_near(["(0.5, T)", "(0.5, T)"], 1.0) == [0, 1]


def test_sets_do_not_grow_along_chains() -> None:
    assert merge_near(["0.0", "0.09", "0.18", "0.05"], 0.1) == [0, 0, 2, 0]


@unhurried
@given(st.floats(-1e6, 1e6), st.floats(0, 1e-3), st.floats(1e-6, 1.0))
def test_the_tolerance_is_relative_above_1_and_absolute_below(value: float, off: float, tolerance: float) -> None:
    other = value + off
    allowed = tolerance * max(1.0, abs(value), abs(other))
    if value == other or abs(abs(value - other) - allowed) < 1e-12:
        return

    assert (merge_near([repr(value), repr(other)], tolerance) == [0, 0]) is (abs(value - other) < allowed)


@unhurried
@given(st.text(alphabet="0123456789.eE+-infa x()[],", max_size=30))
def test_any_text_is_read(text: str) -> None:
    floats = read_floats(text)
    if floats is not None:
        assert len(floats.floats) == floats.rest.count("~")
