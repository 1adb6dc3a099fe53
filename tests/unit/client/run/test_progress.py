"""What a run says while it waits."""

from __future__ import annotations

from typing import Any

import pytest

from dbg_client.run.progress import panes_beside, progress, way_back
from dbg_wire.records.ranks import RankInfo, RankState
from tests.unit.client.fake_broker import make_rank


def running(rank: int, **fields: Any) -> RankInfo:
    return make_rank(rank, **{"state": RankState.RUNNING, "where": None, "reason": None, "world_size": 4, **fields})


PASSED = "a.py:5 without stopping, because no broker answered (no answer within 10 s)"
FOUR = [running(rank) for rank in range(4)]


@pytest.mark.parametrize(
    ("ranks", "stops", "sentence"),
    [
        ([], ("train.py:38",), "no rank has connected yet (12 s)"),
        (FOUR[:1], ("train.py:38",), "1 of 4 ranks connected (12 s)"),
        (FOUR, ("train.py:38",), "4 of 4 ranks connected, none has stopped at train.py:38 (12 s)"),
        (FOUR, ("a.py:1", "b:main"), "4 of 4 ranks connected, none has stopped at any of the 2 stops (12 s)"),
        (FOUR, (), "4 of 4 ranks connected, none has stopped (12 s)"),
        ([running(0, world_size=None)], (), "1 of 1 rank connected, none has stopped (12 s)"),
        ([*FOUR[:3], running(3, state=RankState.EXITED)], (), "3 of 4 ranks connected, 1 has ended (12 s)"),
        ([*FOUR, running(0, child=1)], (), "4 of 4 ranks connected, none has stopped (12 s)"),
        ([running(rank, passed=PASSED) for rank in range(4)], ("a.py:5",), f"all 4 ranks passed {PASSED} (12 s)"),
        ([*FOUR[:3], running(3, passed=PASSED)], ("a.py:5",), f"1 of 4 ranks passed {PASSED} (12 s)"),
        (FOUR, ("a\x1b.py:1",), "4 of 4 ranks connected, none has stopped at a\\x1b.py:1 (12 s)"),
    ],
)
def test_who_is_there_and_what_none_has_reached(ranks: list[RankInfo], stops: tuple[str, ...], sentence: str) -> None:
    assert progress(ranks, stops, "all", 12.3, had_stop=False) == sentence


def test_after_a_stop_nothing_is_said_of_where_none_has_been() -> None:
    assert progress(FOUR, ("train.py:38",), "all", 2, had_stop=True) == "4 of 4 ranks connected, none is stopped (2 s)"


def test_stops_that_are_not_followed_are_told() -> None:
    ranks = [make_rank(0, world_size=2), running(1, world_size=2)]
    assert progress(ranks, (), "1", 2, had_stop=False) == "2 of 2 ranks connected, 1 stopped, waiting for 1 (2 s)"


def test_the_way_back_names_the_rank_that_was_left_last() -> None:
    assert way_back([make_rank(6)]) == "gpu013:6 is still stopped; Enter comes back"
    assert way_back([make_rank(6), make_rank(5)]) == "gpu013:6 and 1 more are still stopped; Enter comes back"


def test_stops_in_panes_are_named() -> None:
    assert panes_beside([make_rank(6)]) == "gpu013:6 is stopped, in a pane beside this one"
    assert panes_beside([make_rank(6), make_rank(5)]) == "gpu013:6 and 1 more are stopped, in panes beside this one"


def test_a_long_wait_is_counted_in_minutes() -> None:
    assert progress([], (), "all", 605, had_stop=False) == "no rank has connected yet (10 min)"
