"""The beginning of a value's text is that of its whole text, and takes no look at the rest."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.values.describe import beginning_of, describe
from tests.unit.agent.values.test_describe import PLENTY, VALUES


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


@given(VALUES, st.integers(1, 100))
def test_it_is_the_beginning_of_the_described_text(value: object, most: int) -> None:
    assert beginning_of(value, most=most, seconds=PLENTY) == cut(
        describe(value, stats=False, seconds=PLENTY).text, most
    )


class Raising:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


def deep(levels: int) -> Any:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        "x" * 100_000,
        list(range(100_000)),
        b"y" * 50_000,
        {n: str(n) for n in range(5000)},
        [Raising()],
        deep(150),
        [["[", "{"] * 2000],
        "\ud800",
        object,
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("most", [10, 2000])
def test_of_any_value(value: object, most: int) -> None:
    assert beginning_of(value, most=most, seconds=PLENTY) == cut(
        describe(value, stats=False, seconds=PLENTY).text, most
    )


def test_the_rest_is_not_looked_at() -> None:
    class Slow:
        seen = 0

        def __repr__(self) -> str:
            type(self).seen += 1
            return "slow" * 100

    beginning_of([Slow() for _ in range(1000)], most=2000, seconds=PLENTY)
    assert Slow.seen < 10


def test_a_text_ends_with_the_time() -> None:
    class Sleepy:
        def __repr__(self) -> str:
            time.sleep(0.01)
            return "z"

    told = beginning_of([Sleepy() for _ in range(1000)], most=2000, seconds=0.05)
    assert told.startswith("[z, z")
    assert told.endswith("… [values not compared: not done within 0.05 s]")
