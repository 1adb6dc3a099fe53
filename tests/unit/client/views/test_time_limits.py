from __future__ import annotations

from dbg_client.views.list import first_limits, show_table, without_limit
from dbg_wire.records.ranks import RankInfo
from tests.conftest import Approved
from tests.unit.client.fake_broker import make_rank

NOW = 1_760_000_100.0
WAITS = "gloo collectives that wait for it time out in"


def limited(number: int, minutes: int, before: str = "", **changes: object) -> RankInfo:
    limit = f"{WAITS} {minutes} min"
    detail = f"{before}; {limit}" if before else limit
    return make_rank(number, detail=detail, limit=limit, limit_seconds=minutes * 60.0, **changes)


def test_the_first_time_limit_stands_once_below_the_list_and_on_no_row(approved: Approved) -> None:
    ranks = [limited(0, 29), limited(1, 28), limited(2, 28), make_rank(3)]

    *rows, foot = show_table(ranks, NOW, color=False).splitlines()

    approved(foot)
    assert len(rows) == 5
    assert not any("time out" in row for row in rows)


def test_a_single_time_limit_is_that_of_its_rank_and_without_one_there_is_no_foot() -> None:
    assert first_limits([limited(5, 3), make_rank(6)]) == [f"{make_rank(5).address}: {WAITS} 3 min"]
    assert first_limits([make_rank(5)]) == []


def test_each_job_has_its_own_first_time_limit() -> None:
    ranks = [limited(0, 9, job="b"), limited(0, 5, job="a"), limited(1, 4, job="a")]

    assert first_limits(ranks) == [
        f"a/{ranks[2].address} has the first of 2 time limits: {WAITS} 4 min",
        f"b/{ranks[0].address}: {WAITS} 9 min",
    ]


def test_the_exception_of_a_crash_stays_on_its_row() -> None:
    assert without_limit(limited(0, 9, before="ValueError: bad; loss")) == "ValueError: bad; loss"
    assert without_limit(make_rank(0, detail=f"{WAITS} 9 min")) == f"{WAITS} 9 min"


def test_a_limit_can_not_act_on_the_terminal() -> None:
    (line,) = first_limits([make_rank(0, limit="\x1b]2;owned\x07", limit_seconds=1.0)])

    assert line.isprintable()
