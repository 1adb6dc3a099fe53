"""What counts as a leak, and what does not."""

from __future__ import annotations

import pytest

from tests.full.soak.growth import growth, table


def sampled(*tasks: int) -> list[dict[str, dict[str, int]]]:
    return [{"broker": {"tasks": count}} for count in tasks]


@pytest.mark.parametrize(
    ("tasks", "is_leak"),
    [
        ([5] * 10, False),
        ([1, 2, 3, 4, 9, 9, 9, 9, 9, 9], False),
        ([5, 5, 5, 5, 5, 9, 5, 5, 5, 5], False),
        ([5, 5, 5, 5, 5, 6, 6, 7, 7, 8], True),
        ([9, 9, 9, 9, 9, 8, 7, 6, 5, 4], False),
    ],
    ids=["still", "warm-up", "one peak", "leak", "fewer"],
)
def test_a_number_that_rises_behind_the_warm_up_is_a_leak(tasks: list[int], is_leak: bool) -> None:
    (grown,) = growth(sampled(*tasks))
    assert grown.is_leak is is_leak
    assert ("GROWS" in table([grown])) is is_leak


def test_a_share_is_allowed_of_what_is_large() -> None:
    grown = growth([{"rank": {"memory": 200_000 + 500 * turn}} for turn in range(10)])
    assert [one.is_leak for one in grown] == [False]


def test_too_few_samples_tell_nothing() -> None:
    with pytest.raises(ValueError, match="3 samples tell nothing"):
        growth(sampled(1, 1, 1))
