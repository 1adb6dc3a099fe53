from __future__ import annotations

import pytest

from dbg_client.core.roll_call import MAX_WORLD, Missing, RollCall, call_roll, ended_of_live_runs, live_runs, never_came
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.targets.selection import parse_target
from tests.unit.client.fake_broker import make_rank

EXITED = RankState.EXITED


def rank(number: int, state: RankState = RankState.RUNNING, **changes: object) -> RankInfo:
    job, run = changes.get("job", "4711.0"), changes.get("run", "0.0")
    values = {"world_size": 4, "key": f"{job}/{run}/{number}/{state.value}/{changes.get('child')}", **changes}
    return make_rank(number, state=state, **values)


def missing(calls: list[RollCall]) -> list[tuple[str, tuple[int, ...], str]]:
    return [(one.job, one.numbers, one.text) for call in calls for one in call.missing]


def test_a_whole_run_misses_nobody() -> None:
    assert call_roll([rank(number) for number in range(4)]) == []


def test_ranks_that_never_came_are_those_that_the_world_size_tells_of() -> None:
    (call,) = call_roll([rank(0), rank(1)])

    assert (call.world, call.connected, call.absent) == (4, 2, (2, 3))
    assert [one.state for one in call.missing] == [Missing.ABSENT]


def test_the_largest_world_size_counts_and_none_tells_of_nobody() -> None:
    (call,) = call_roll([rank(0, world_size=None), rank(1, world_size=2), rank(2, EXITED, world_size=3, exit=0)])

    assert call.world == 3
    assert missing([call]) == [("4711.0", (2,), "exited with status 0")]
    assert call_roll([rank(0, world_size=None)]) == []


def test_a_world_that_nobody_can_have_is_not_believed() -> None:
    assert call_roll([rank(0, world_size=MAX_WORLD + 1)]) == []
    (call,) = call_roll([rank(0, world_size=MAX_WORLD)])
    assert len(call.absent) == MAX_WORLD - 1


def test_dead_ranks_are_told_by_how_they_ended_and_since_when_the_first_did() -> None:
    ranks = [
        rank(0),
        rank(1, EXITED, exit=-9, since=30.0),
        rank(2, EXITED, exit=1, since=40.0),
        rank(3, EXITED, exit=-9, since=20.0),
    ]

    (call,) = call_roll(ranks)

    assert missing([call]) == [
        ("4711.0", (1, 3), "killed by SIGKILL"),
        ("4711.0", (2,), "exited with status 1"),
    ]
    assert [one.since for one in call.exited] == [20.0, 40.0]
    assert (call.connected, call.absent) == (4, ())


def test_a_lost_rank_has_connected_and_is_asked_like_the_others() -> None:
    assert call_roll([rank(0), rank(1), rank(2), rank(3, RankState.LOST)]) == []


def test_a_process_that_took_the_place_of_a_dead_one_hides_it() -> None:
    ranks = [rank(number) for number in range(4)]
    assert call_roll([*ranks, rank(2, EXITED, exit=-9)]) == []
    again = [rank(2, EXITED, exit=-9, since=5.0), rank(2, EXITED, key="first", exit=0, since=1.0)]
    assert missing(call_roll([*ranks[:2], ranks[3], *again])) == [("4711.0", (2,), "killed by SIGKILL")]


def test_children_and_stock_debuggers_are_not_counted() -> None:
    child = rank(0, EXITED, child=1, address="gpu013:0.1", exit=1)
    stock = rank(0, job="classic", address="gpu013:?1")
    ended = rank(9, EXITED, job="classic", address="gpu013:?9", key="ended")

    assert call_roll([*(rank(number) for number in range(4)), child, stock, ended]) == []


def test_of_a_job_that_was_launched_again_the_new_run_counts() -> None:
    before = [rank(number, RankState.LOST, run="0.0") for number in (0, 1)]
    before += [rank(number, EXITED, run="0.0", exit=1) for number in (2, 3)]
    now = [rank(number, run="0.1") for number in (0, 1, 2)]

    assert live_runs([*before, *now]) == {("4711.0", "0.1")}
    assert missing(call_roll([*before, *now])) == [("4711.0", (3,), "never came")]
    assert live_runs(before) == {("4711.0", "0.0")}
    assert live_runs(before[2:]) == frozenset()


def test_two_runs_of_one_job_that_both_live_are_called_apart() -> None:
    both = [rank(0, run="a", world_size=2), rank(0, run="b", world_size=2), rank(1, run="b", world_size=2)]
    (call,) = call_roll(both)
    assert (call.connected, call.absent) == (1, (1,))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("all", {2, 3}),
        ("*/all", {2, 3}),
        ("4711.0/all", {2, 3}),
        ("47*/all", {2, 3}),
        ("4712.0/all", set()),
        (":*", {2, 3}),
        ("0-2", {2}),
        ("3", {3}),
        ("!3", {2}),
        ("all,!2", {3}),
        ("0,3", {3}),
        ("gpu013:*", {2}),
        ("gpu014:*", set()),
        ("stopped", set()),
        ("running", set()),
        ("0,running", set()),
        ("2@7", set()),
    ],
)
def test_a_target_means_a_missing_rank_by_number_or_with_the_whole_job(text: str, numbers: set[int]) -> None:
    ranks = [rank(0), rank(1), rank(2, EXITED, exit=-9)]

    calls = call_roll(ranks, parse_target(text))

    assert {number for call in calls for one in call.missing for number in one.numbers} == numbers


def test_ranks_that_are_told_of_elsewhere_are_not_missing_and_other_jobs_are_left_out() -> None:
    dead, other = rank(2, EXITED, exit=-9), rank(0, job="other")
    ranks = [rank(0), rank(1), dead, rank(3), other]

    assert missing(call_roll(ranks, asked={ranks[0].key})) == [("4711.0", (2,), "killed by SIGKILL")]
    assert call_roll(ranks, asked={ranks[0].key, dead.key}) == []
    assert missing(call_roll(ranks, asked={other.key})) == [("other", (1, 2, 3), "never came")]


def test_who_ended_in_a_run_that_lives_is_listed_once() -> None:
    dead, older = rank(2, EXITED, since=5.0, exit=-9), rank(2, EXITED, key="older", since=1.0)
    gone = rank(1, EXITED, job="gone")
    assert ended_of_live_runs([rank(0), older, dead, gone]) == [dead]


def test_a_childs_number_does_not_stand_for_a_rank() -> None:
    assert never_came([rank(0, world_size=2), rank(1, world_size=2, child=1)]) == (1,)
    assert never_came([rank(0, world_size=None)]) == ()
    assert never_came([rank(0, world_size=10**12)]) == ()
    assert never_came([]) == ()
