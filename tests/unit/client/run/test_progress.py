"""What a run says while it waits."""

from __future__ import annotations

from typing import Any

import pytest

from dbg_client.run.progress import panes_beside, progress, way_back
from dbg_wire.records.ranks import RankInfo, RankState
from tests.conftest import Approved
from tests.unit.client.fake_broker import make_rank


def running(rank: int, **fields: Any) -> RankInfo:
    return make_rank(rank, **{"state": RankState.RUNNING, "where": None, "reason": None, "world_size": 4, **fields})


PASSED = "a.py:5 without stopping, because no broker answered (no answer within 10 s)"
FOUR = [running(rank) for rank in range(4)]


@pytest.mark.parametrize(
    ("ranks", "stops"),
    [
        ([], ("train.py:38",)),
        (FOUR[:1], ("train.py:38",)),
        (FOUR, ("train.py:38",)),
        (FOUR, ("a.py:1", "b:main")),
        (FOUR, ()),
        ([running(0, world_size=None)], ()),
        ([*FOUR[:3], running(3, state=RankState.EXITED)], ()),
        ([*FOUR, running(0, child=1)], ()),
        ([running(rank, passed=PASSED) for rank in range(4)], ("a.py:5",)),
        ([*FOUR[:3], running(3, passed=PASSED)], ("a.py:5",)),
        (FOUR, ("a\x1b.py:1",)),
    ],
)
def test_who_is_there_and_what_none_has_reached(
    approved: Approved, ranks: list[RankInfo], stops: tuple[str, ...]
) -> None:
    approved(progress(ranks, stops, "all", 12.3, had_stop=False))


def test_after_a_stop_nothing_is_said_of_where_none_has_been() -> None:
    assert progress(FOUR, ("train.py:38",), "all", 2, had_stop=True) == "4 of 4 ranks connected, none is stopped (2 s)"


def test_stops_that_are_not_followed_are_told() -> None:
    ranks = [make_rank(0, world_size=2), running(1, world_size=2)]
    assert progress(ranks, (), "1", 2, had_stop=False) == "2 of 2 ranks connected, 1 stopped, waiting for 1 (2 s)"


def test_the_way_back_names_the_rank_that_was_left_last(approved: Approved) -> None:
    approved(way_back([make_rank(6)]))
    approved(way_back([make_rank(6), make_rank(5)]), "2")


def test_stops_in_panes_are_named(approved: Approved) -> None:
    approved(panes_beside([make_rank(6)]))
    approved(panes_beside([make_rank(6), make_rank(5)]), "2")


def test_a_long_wait_is_counted_in_minutes(approved: Approved) -> None:
    approved(progress([], (), "all", 605, had_stop=False))
