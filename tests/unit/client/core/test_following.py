"""Which stop of a job a terminal goes to next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.core.choose import WantedRank, is_followed, next_stop, ranks_of
from dbg_wire.records.ranks import Place, RankInfo, RankState
from dbg_wire.targets.selection import parse_target
from tests.support.rank_infos import changed, rank

ALL = parse_target("all")
STOPPED, RUNNING, HELD, EXITED, LOST, SILENT = (
    RankState.STOPPED,
    RankState.RUNNING,
    RankState.HELD,
    RankState.EXITED,
    RankState.LOST,
    RankState.UNRESPONSIVE,
)


def job(*states: RankState) -> list[RankInfo]:
    """Make the ranks of one job, numbered from 0."""
    return [rank(f"gpu1:{number}", state=state, since=1.0) for number, state in enumerate(states)]


def next_of(
    ranks: list[RankInfo], wanted: WantedRank | None = None, left: dict[str, float] | None = None, target: str = "all"
) -> tuple[int | None, bool]:
    found, at_once = next_stop(parse_target(target), ranks, left or {}, wanted)
    return (None if found is None else found.rank), at_once


def test_only_ranks_of_the_job_are_its_ranks() -> None:
    ranks = [rank("gpu1:0", job="A"), rank("gpu1:0", job="AB"), rank("gpu2:1", job="A")]
    assert ranks_of("A", ranks) == [ranks[0], ranks[2]]


def test_the_lowest_stopped_rank_is_gone_to_at_once() -> None:
    assert next_of(job(RUNNING, STOPPED, STOPPED)) == (1, True)
    assert next_of([*reversed(job(STOPPED, STOPPED))]) == (0, True)


@pytest.mark.parametrize("states", [(), (RUNNING,), (HELD, EXITED), (LOST, SILENT)])
def test_where_nobody_is_stopped_nobody_is_gone_to(states: tuple[RankState, ...]) -> None:
    assert next_of(job(*states)) == (None, False)


def test_a_rank_that_fell_silent_at_its_stop_is_still_stopped() -> None:
    (silent,) = job(SILENT)
    assert next_of([changed(silent, where=Place(file="a.py", line=1, function="f"))]) == (0, True)


def test_other_ranks_wait_for_the_wanted_one() -> None:
    wanted = WantedRank(2, 5.0)
    assert next_of(job(STOPPED, RUNNING, RUNNING), wanted) == (0, False)
    assert next_of(job(STOPPED, RUNNING, STOPPED), wanted) == (2, True)
    assert next_of(job(STOPPED, RUNNING), wanted) == (0, False)


@pytest.mark.parametrize("state", [EXITED, LOST])
def test_nobody_waits_for_a_rank_that_is_gone(state: RankState) -> None:
    assert next_of(job(STOPPED, RUNNING, state), WantedRank(2, 5.0)) == (0, True)


def test_a_rank_that_was_started_anew_is_not_gone() -> None:
    ranks = [*job(STOPPED, EXITED), rank("gpu1:1", state=RUNNING, pid=2)]
    assert next_of(ranks, WantedRank(1, 5.0)) == (0, False)


def test_a_stop_that_was_left_is_not_gone_to_again_but_the_next_one_is() -> None:
    ranks = job(STOPPED, STOPPED)
    left = {ranks[0].key: ranks[0].since}
    assert next_of(ranks, left=left) == (1, True)
    assert next_of(ranks[:1], left=left) == (None, False)
    assert next_of([ranks[0].replace(since=2.0)], left=left) == (0, True)


def test_a_stop_that_was_left_is_the_same_stop_when_the_clock_of_the_broker_is_set() -> None:
    stopped = changed(rank("gpu1:0", since=1.0), stop=4)
    left = {stopped.key: stopped.occasion}
    assert next_of([stopped.replace(since=1.001)], left=left) == (None, False)
    assert next_of([changed(stopped, stop=5)], left=left) == (0, True)


def test_a_rank_that_was_gone_to_for_a_moment_is_not_the_one_that_was_followed() -> None:
    assert is_followed(None, 0.1, ended_by_user=False)
    assert is_followed(1, 0.1, ended_by_user=True)
    assert is_followed(1, 2.0, ended_by_user=False)
    assert not is_followed(1, 0.1, ended_by_user=False)


def test_a_wanted_rank_that_was_left_keeps_others_waiting_no_longer_than_any() -> None:
    ranks = job(STOPPED, STOPPED)
    assert next_of(ranks, WantedRank(1, 5.0), {ranks[1].key: ranks[1].since}) == (0, False)


def test_whoever_comes_back_comes_back_to_the_rank_that_was_left() -> None:
    ranks = job(STOPPED, STOPPED, STOPPED)
    assert next_stop(ALL, ranks, {}, None, ranks[2].key) == (ranks[2], True)
    assert next_stop(ALL, ranks, {}, WantedRank(1, 5.0), ranks[2].key) == (ranks[2], True)
    assert next_stop(parse_target("0"), ranks, {}, None, ranks[2].key) == (ranks[2], True)
    assert next_stop(parse_target("7"), ranks, {}, None, ranks[2].key) == (ranks[2], True)


def test_whoever_comes_back_to_a_rank_that_went_on_gets_the_next_one_at_once() -> None:
    ranks = job(STOPPED, STOPPED, RUNNING)
    assert next_stop(ALL, ranks, {}, None, ranks[2].key) == (ranks[0], True)


def test_only_the_target_is_followed() -> None:
    ranks = job(STOPPED, STOPPED, RUNNING)
    assert next_of(ranks, target="1-2") == (1, True)
    assert next_of(ranks, target="!0,!1") == (None, False)
    assert next_of(ranks, target="7") == (None, False)


def test_a_rank_goes_before_its_children() -> None:
    ranks = [rank("gpu1:0.2"), rank("gpu1:0.1"), rank("gpu1:1"), rank("gpu1:0")]
    order = []
    left: dict[str, float] = {}
    for _ in ranks:
        found, _ = next_stop(ALL, ranks, left, None)
        assert found is not None
        left[found.key] = found.since
        order.append(found.address)
    assert order == ["gpu1:0", "gpu1:0.1", "gpu1:0.2", "gpu1:1"]


RANKS = st.lists(st.sampled_from(list(RankState)), max_size=6).map(lambda states: job(*states))


@given(RANKS, st.none() | st.integers(0, 7), st.sets(st.integers(0, 5)))
def test_whoever_is_gone_to_is_stopped_and_was_not_left(
    ranks: list[RankInfo], wanted: int | None, gone: set[int]
) -> None:
    left = {one.key: one.since for one in ranks if one.rank in gone}
    ready = {one.rank for one in ranks if one.state is STOPPED and one.rank not in gone}
    found, at_once = next_of(ranks, None if wanted is None else WantedRank(wanted, 1.0), left)

    assert found == (wanted if wanted in ready else min(ready, default=None))
    assert at_once <= (found is not None)
    if wanted is None or found == wanted:
        assert at_once is (found is not None)
    elif at_once:
        assert ranks[wanted].state in (EXITED, LOST)


@given(RANKS, st.integers(0, 7))
def test_the_order_in_which_ranks_are_listed_is_all_the_same(ranks: list[RankInfo], wanted: int) -> None:
    assert next_of(ranks, WantedRank(wanted, 1.0)) == next_of(ranks[::-1], WantedRank(wanted, 1.0))
