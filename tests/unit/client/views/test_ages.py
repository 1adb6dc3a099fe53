from __future__ import annotations

import pytest

from dbg_client.views.ages import Age, show_age, with_age
from dbg_client.views.list import first_limits, show_table
from dbg_wire.records.ranks import Limit, LimitKind, RankInfo
from tests.conftest import Approved
from tests.unit.client.fake_broker import make_rank


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
def test_an_age_is_shown_in_its_two_largest_units(seconds: float, shown: str) -> None:
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
        ("stuck for 12 s", [Age(12.0)]),
    ],
)
def test_a_state_shows_the_known_age(approved: Approved, state: str, ages: list[Age]) -> None:
    approved(with_age(state, ages))


NOW = 1_760_000_100.0


def limited(number: int, minutes: int, **changes: object) -> RankInfo:
    limit = Limit(kind=LimitKind.COLLECTIVES, seconds=minutes * 60.0, name="gloo")
    return make_rank(number, limit=limit, **changes)


def test_the_first_time_limit_is_shown_once_below_the_list() -> None:
    ranks = [limited(0, 29), limited(1, 28), limited(2, 28), make_rank(3)]

    *rows, foot = show_table(ranks, NOW, color=False).splitlines()

    assert foot == first_limits(ranks)[0]
    assert len(rows) == 5
    assert not any("gloo" in row for row in rows)


def test_each_job_has_its_own_first_time_limit(approved: Approved) -> None:
    ranks = [limited(0, 9, job="b"), limited(0, 5, job="a"), limited(1, 4, job="a")]

    approved("\n".join(first_limits(ranks)))
    assert first_limits([limited(5, 3), make_rank(6)]) == [f"{make_rank(5).address}: {limited(5, 3).limit}"]
    assert first_limits([make_rank(5)]) == []


def test_the_exception_of_a_crash_stays_on_its_row() -> None:
    row, _ = show_table([limited(0, 9, error="ValueError: bad; loss")], NOW, color=False).splitlines()[1:]
    assert row.endswith("ValueError: bad; loss")
