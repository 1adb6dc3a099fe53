"""How many texts of log points a rank tells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.breakpoints.log_points import MAX_OF_JOB, MAX_OF_RANK, LogPace


@pytest.mark.parametrize(
    ("world_size", "rate"),
    [(1, MAX_OF_RANK), (200, MAX_OF_RANK), (512, MAX_OF_JOB // 512), (100_000, 1)],
)
def test_a_rank_of_a_large_job_tells_less(world_size: int, rate: int) -> None:
    pace = LogPace(world_size)
    lines = [pace.line("x", 5.5) for _ in range(rate + 3)]
    assert lines == ["x"] * rate + [None] * 3
    assert pace.line("y", 6.0) == "(3 more before this one: see the job's output) y"
    assert pace.last() is None


def test_the_last_text_is_told_once_if_it_was_left_out() -> None:
    pace = LogPace(MAX_OF_JOB)
    assert pace.line("1", 0.0) == "1"
    assert [pace.line(text, 0.5) for text in "23"] == [None, None]
    assert [pace.is_last_due(), pace.is_last_due()] == [True, False]
    assert pace.last() == "(1 more before this one: see the job's output) 3"
    assert pace.last() is None
    assert pace.line("4", 0.7) is None
    assert pace.is_last_due()
    assert pace.last() == "4"


@given(st.lists(st.floats(0, 0.4), max_size=200), st.integers(1, 1000))
def test_of_any_flood_all_texts_are_told_or_counted(waits: list[float], world_size: int) -> None:
    pace, now, told = LogPace(world_size), 0.0, []
    for wait in waits:
        now += wait
        line = pace.line("x", now)
        told += [line] if line is not None else []
    last = pace.last()
    told += [last] if last is not None else []
    assert sum(1 + (int(line.split("(")[1].split()[0]) if "(" in line else 0) for line in told) == len(waits)
    assert len(told) <= (int(now) + 1) * MAX_OF_RANK + 1
