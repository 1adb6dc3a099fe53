from __future__ import annotations

import pytest

from dbg_client.views.list import show_table
from dbg_client.views.waits import show_wait
from dbg_wire.ranks import RankState
from tests.client.fake_broker import make_rank

WAITING = make_rank(6, state=RankState.RUNNING, where=None, reason=None, waits_in="all_reduce")


@pytest.mark.parametrize(
    ("collective", "stopped", "held", "expected"),
    [
        ("all_reduce", 3, 0, "waits in all_reduce for 3 stopped ranks"),
        ("barrier", 0, 1, "waits in barrier for 1 held rank"),
        ("barrier", 1, 2, "waits in barrier for 1 stopped and 2 held ranks"),
        ("barrier", 0, 0, ""),
        ("", 3, 0, ""),
    ],
)
def test_a_rank_in_a_collective_waits_for_those_that_stand(
    collective: str, stopped: int, held: int, expected: str
) -> None:
    assert show_wait(collective, stopped, held) == expected


def test_a_row_of_the_list_says_so_and_counts_the_ranks_of_its_own_job_alone() -> None:
    known = [WAITING, *(make_rank(number) for number in range(3)), make_rank(0, job="other", key="other")]

    (row,) = show_table([WAITING], 0.0, color=False, known=known).splitlines()[1:]

    assert " waits in all_reduce for 3 stopped ranks " in f"{row} "
    assert " running" in show_table([WAITING], 0.0, color=False)
