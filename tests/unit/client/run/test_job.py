"""What a run waits for."""

from __future__ import annotations

from typing import Any

import pytest

from dbg_client.run.job import progress
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
        ([running(0, world_size=None)], ()),
        ([*FOUR[:3], running(3, state=RankState.EXITED)], ()),
        ([*FOUR, running(0, child=1)], ()),
        ([*FOUR[:3], running(3, passed=PASSED)], ("a.py:5",)),
        (FOUR, ("a\x1b.py:1",)),
    ],
)
def test_progress_names_present_ranks_and_unreached_stops(
    approved: Approved, ranks: list[RankInfo], stops: tuple[str, ...]
) -> None:
    approved(progress(ranks, stops, "all", had_stop=False))


def test_first_stop_is_not_awaited_after_a_stop() -> None:
    assert "stopped" not in progress(FOUR, ("train.py:38",), "all", had_stop=True)
    one_of_two = [make_rank(0, world_size=2), running(1, world_size=2)]
    assert "1 stopped, waiting for 1" in progress(one_of_two, (), "1", had_stop=False)
