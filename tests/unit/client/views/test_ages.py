from __future__ import annotations

import pytest

from dbg_client.views.waits import Age, of_about_one_age, oldest, show_age, told_for, with_age
from tests.conftest import Approved


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (8.9, "8 s"),
        (252.0, "4 min 12 s"),
        (240.0, "4 min"),
        (7500.0, "2 h 5 min"),
        (273600.0, "3 d 4 h"),
        (-1.0, "0 s"),
    ],
)
def test_an_age_is_said_in_its_two_largest_units(seconds: float, shown: str) -> None:
    assert show_age(seconds) == shown


@pytest.mark.parametrize(
    ("state", "ages"),
    [
        ("running", [Age(252.0)]),
        ("running", [Age(8.2, True), Age(8.7, True)]),
        ("running", [Age(20.0, True), Age()]),
        ("stopped", [Age(252.0)]),
        ("held", [Age(5.0), Age(60.0)]),
        ("waits in barrier for 1 stopped rank", [Age(9.0, True)]),
        ("running", [Age()]),
        ("stopped", [Age(0.4)]),
        ("stuck in C code for 12 s", [Age(12.0)]),
    ],
)
def test_a_state_tells_what_is_known_of_the_age(approved: Approved, state: str, ages: list[Age]) -> None:
    approved(with_age(state, ages))


def test_the_oldest_age_is_one_that_is_known() -> None:
    assert oldest([Age(), Age(3.0), Age(2.0, True)]) == 3.0
    assert oldest([Age()]) is None


@pytest.mark.parametrize(
    ("seconds", "groups"),
    [
        ([5.9, 7.0, 6.1], [[0, 2, 1]]),
        ([5.0, 5.9, 60.0, 80.0], [[0, 1], [2, 3]]),
        ([0.3, None, 1.2], [[0, 1], [2]]),
        ([1.0, 3600.0], [[0], [1]]),
        ([], []),
    ],
)
def test_ranks_that_are_there_for_about_as_long_belong_together(
    seconds: list[float | None], groups: list[list[int]]
) -> None:
    assert [list(group) for group in of_about_one_age(dict(enumerate(map(Age, seconds))))] == groups


@pytest.mark.parametrize(
    ("ages", "told"),
    [
        ([Age(6.1), Age(6.8)], "6 s"),
        ([Age(6.1), Age(7.8)], "at least 6 s"),
        ([Age(6.1, True)], "at least 6 s"),
        ([Age(), Age(0.4)], ""),
    ],
)
def test_of_several_ages_the_one_is_told_that_is_true_of_all(ages: list[Age], told: str) -> None:
    assert told_for(ages) == told
