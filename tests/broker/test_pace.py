"""How fast a terminal may send."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.pace import Pace


def test_a_seconds_worth_is_free() -> None:
    pace = Pace(0.0, 1000)
    assert pace.spend(1000, 0.0) == 0.0
    assert pace.spend(500, 0.0) == 0.5
    assert pace.spend(500, 0.5) == 0.5


def test_credit_is_not_saved_up() -> None:
    pace = Pace(0.0, 1000)
    assert pace.spend(3000, 100.0) == 2.0


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 5000)), max_size=50))
def test_who_waits_as_told_never_exceeds_the_rate(steps: list[tuple[float, int]]) -> None:
    pace, now, sent = Pace(0.0, 1000), 0.0, 0
    for gap, size in steps:
        now += gap
        sent += size
        now += pace.spend(size, now)
        assert sent <= 1000 * (now + 1) + 1e-6 * (sent + 1)
