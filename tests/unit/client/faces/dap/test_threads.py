"""Ranks as threads: who is listed, and what an IDE is told as ranks stop, move and end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.faces.dap.threads import (
    REST,
    Continued,
    Exited,
    Started,
    Stopped,
    ThreadEvent,
    ThreadTable,
    choose_listed,
)
from dbg_wire.records.ranks import Place, RankInfo, RankState
from tests.support.rank_infos import changed
from tests.unit.client.fake_broker import HERE, make_rank

THERE = HERE.replace(line=HERE.line + 1)


def stopped(number: int, *, stop: int | None = 1, where: Place = HERE, reason: str = "breakpoint") -> RankInfo:
    return make_rank(number, stop=stop, where=where, reason=reason)


def running(number: int) -> RankInfo:
    return make_rank(number, state=RankState.RUNNING, where=None, reason=None)


def held(number: int) -> RankInfo:
    return make_rank(number, state=RankState.HELD, reason=None, stop=1)


def stops(events: Sequence[ThreadEvent]) -> list[tuple[int, str, bool]]:
    return [(one.thread, one.reason, one.is_ours) for one in events if isinstance(one, Stopped)]


def test_a_rank_is_told_once_when_it_stops_and_once_when_it_goes_on() -> None:
    table = ThreadTable()
    assert table.update([running(0)]) == [Started(2)]
    assert stops(table.update([stopped(0)])) == [(2, "breakpoint", False)]
    assert table.update([stopped(0)]) == []
    assert table.stands(stopped(0).key)
    assert table.update([running(0)]) == [Continued(2)]
    assert not table.stands(stopped(0).key)
    assert table.update([]) == [Exited(2)]
    assert table.key(2) is None


def test_a_restarted_rank_is_another_thread() -> None:
    table = ThreadTable()
    table.update([stopped(0)])
    again = changed(stopped(0), key="another process", pid=9)
    assert table.update([again])[:2] == [Exited(2), Started(3)]


@pytest.mark.parametrize(
    ("rank", "reason"),
    [
        (stopped(0, reason="interrupt"), "pause"),
        (stopped(0, reason="crash"), "exception"),
        (held(0), "held"),
        (stopped(0, reason="breakpoint"), "breakpoint"),
    ],
)
def test_the_reason_is_in_the_protocols_words(rank: RankInfo, reason: str) -> None:
    assert stops(ThreadTable().update([rank])) == [(2, reason, False)]


def test_a_step_of_this_window_is_told_once_it_has_ended() -> None:
    table = ThreadTable()
    table.update([stopped(0)])
    key, before = stopped(0).key, table.version(stopped(0).key)
    table.begin_move(key, is_step=True)
    assert table.version(key) != before
    assert table.update([running(0)]) == []
    assert table.update([stopped(0, where=THERE)]) == []
    table.end_move(key)
    assert stops(table.update([stopped(0, where=THERE)])) == [(2, "step", True)]


def test_a_step_that_ends_where_it_began_is_told_too() -> None:
    table = ThreadTable()
    table.update([stopped(0)])
    table.begin_move(stopped(0).key, is_step=True)
    table.end_move(stopped(0).key)
    assert stops(table.update([stopped(0)])) == [(2, "step", True)]


def test_a_step_that_takes_long_is_told_when_the_rank_stands_again() -> None:
    table = ThreadTable()
    table.update([stopped(0)])
    table.begin_move(stopped(0).key, is_step=True)
    table.end_move(stopped(0).key)
    assert table.update([running(0)]) == []
    assert stops(table.update([stopped(0, where=THERE)])) == [(2, "step", True)]


def test_a_step_into_another_stop_has_that_stops_reason() -> None:
    table = ThreadTable()
    table.update([stopped(0)])
    table.begin_move(stopped(0).key, is_step=True)
    table.end_move(stopped(0).key)
    assert stops(table.update([stopped(0, stop=2, reason="crash")])) == [(2, "exception", True)]


def test_a_rank_that_was_told_to_go_on_is_not_told_at_the_stop_that_it_leaves() -> None:
    table = ThreadTable()
    table.update([stopped(0)])
    table.begin_move(stopped(0).key, is_step=False)
    table.end_move(stopped(0).key)
    assert table.update([stopped(0)]) == []
    assert not table.stands(stopped(0).key)
    assert stops(table.update([stopped(0, stop=2)])) == [(2, "breakpoint", True)]


def test_a_move_that_the_rank_refuses_leaves_it_where_it_was() -> None:
    table = ThreadTable()
    table.update([stopped(0)])
    table.begin_move(stopped(0).key, is_step=False)
    table.end_move(stopped(0).key, failed=True)
    assert [thread for thread, _, _ in stops(table.update([stopped(0)]))] == [2]
    assert table.stands(stopped(0).key)


def test_a_terminals_step_is_told_as_one_and_makes_numbers_stale() -> None:
    table = ThreadTable()
    table.update([stopped(0)])
    before = table.version(stopped(0).key)
    assert stops(table.update([stopped(0, where=THERE)])) == [(2, "step", False)]
    assert table.version(stopped(0).key) != before


def test_a_broker_with_another_clock_tells_of_the_same_stop() -> None:
    table = ThreadTable()
    table.update([stopped(0)])
    assert table.update([stopped(0).replace(since=0.0)]) == []
    older = stopped(1, stop=None).replace(since=1.0)
    table.update([older])
    assert stops(table.update([older.replace(since=2.0)])) != []


def test_what_is_being_opened_is_not_told() -> None:
    table = ThreadTable()
    table.update([stopped(0)])
    table.mute(stopped(0).key, on=True)
    assert table.update([stopped(0, where=THERE)]) == []
    assert not table.stands(stopped(0).key)
    table.mute(stopped(0).key, on=False)
    assert stops(table.update([stopped(0, where=THERE)])) == [(2, "step", False)]


def test_a_break_in_of_this_window_draws_the_eye() -> None:
    table = ThreadTable()
    table.update([running(0)])
    table.expect_stop(running(0).key)
    assert stops(table.update([stopped(0, reason="interrupt")])) == [(2, "pause", True)]


def test_crashed_ranks_come_first_then_those_where_few_are_then_held_and_running_ones() -> None:
    ranks = [
        running(0),
        held(1),
        stopped(2),
        stopped(3),
        stopped(4, where=THERE),
        stopped(5, reason="crash"),
        make_rank(6, state=RankState.EXITED),
        make_rank(7, state=RankState.LOST),
    ]
    assert [rank.rank for rank in choose_listed(ranks, 64)] == [5, 4, 2, 3, 1, 0]
    assert [rank.rank for rank in choose_listed(ranks, 2)] == [5, 4]


def test_an_odd_rank_takes_the_place_of_another_one() -> None:
    table = ThreadTable(most=2)
    table.update([stopped(number) for number in range(4)])
    assert [rank.rank for rank in table.listed] == [0, 1]
    events = table.update([*(stopped(number) for number in range(3)), stopped(3, stop=2, reason="crash")])
    assert [rank.rank for rank in table.listed] == [3, 0]
    assert Exited(3) in events
    assert (5, "exception", False) in stops(events)
    # The rank that had to go is told of again when there is room, as it stands.
    events = table.update([stopped(number) for number in range(2)])
    assert Started(3) in events
    assert stops(events) == [(3, "breakpoint", False)]


def standing(ranks: dict[int, RankInfo]) -> set[str]:
    return {rank.key for rank in ranks.values() if rank.where is not None}


STATES = st.sampled_from([stopped, running, held, None])


@given(st.lists(st.tuples(st.integers(0, 4), STATES, st.integers(1, 3)), max_size=40))
def test_what_is_told_adds_up_to_what_there_is(changes: list[tuple[int, object, int]]) -> None:
    table, ranks = ThreadTable(most=3), dict[int, RankInfo]()
    listed: dict[int, bool] = {}
    for number, make, stop in changes:
        if make is None:
            ranks.pop(number, None)
        else:
            rank = make(number)  # type: ignore[operator]
            ranks[number] = changed(rank, stop=stop) if rank.stop is not None else rank
        for event in table.update(list(ranks.values())):
            assert event.thread != REST
            assert (event.thread in listed) != isinstance(event, Started)
            if isinstance(event, Exited):
                del listed[event.thread]
            else:
                assert not isinstance(event, Continued) or listed[event.thread]
                listed[event.thread] = isinstance(event, Stopped)
        assert len(listed) == min(3, len(ranks))
        assert listed == {table.thread(rank.key): table.stands(rank.key) for rank in table.listed}
        assert all(stands == (table.key(thread) in standing(ranks)) for thread, stands in listed.items())
