from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.hang.slow.clocks import RoundTrip
from dbg_client.hang.slow.lateness import GroupLateness, Lateness, judge
from dbg_client.hang.slow.meetings import meetings_of
from tests.unit.client.hang.slow.simulated import Group, Job


def judged(group: Group, **job: object) -> GroupLateness:
    """Return what one group tells."""
    (meetings,) = meetings_of(Job([group], **job).run())  # type: ignore[arg-type]
    return judge(meetings)


def test_a_rank_that_comes_late_each_time_is_told_with_what_it_costs() -> None:
    told = judged(Group("dp", range(4), lambda rank, step: 0.3 * (rank == 2)))
    assert (told.kind, told.ranks, told.times, told.count) == (Lateness.LATE, (2,), 50, 50)
    assert told.by == pytest.approx(0.3)
    assert told.lost == pytest.approx(0.75)
    assert told.step is not None
    assert told.step.seconds == pytest.approx(0.4)
    assert told.saved == pytest.approx(0.3)
    assert told.behind[2] == pytest.approx(0.3)


def test_only_some_collectives_of_a_step_may_wait_for_it() -> None:
    told = judged(
        Group("dp", range(8), lambda rank, step: 0.2 * (rank == 5 and step % 3 == 0), calls=("all_reduce", "barrier"))
    )
    assert (told.ranks, told.times) == ((5,), 17)


def test_a_step_of_equal_collectives_is_told_by_the_pauses_between_them() -> None:
    told = judged(Group("dp", range(2), lambda rank, step: 0.5 * (step % 5 == 0) + 0.2 * (rank == 1 and step % 5 == 0)))
    assert told.step is not None
    assert told.step.collectives == 5
    assert told.step.seconds == pytest.approx(5 * 0.1 + 0.7)
    assert told.saved == pytest.approx(0.2)


def test_a_late_rank_makes_no_steps() -> None:
    told = judged(Group("dp", range(4), lambda rank, step: 0.3 * (rank == 2 and step % 5 > 0)))
    assert told.step is not None
    assert told.step.collectives == 1
    assert told.step.seconds == pytest.approx(0.34, abs=0.01)
    assert told.step.seconds - told.saved == pytest.approx(0.1, abs=0.01)


def test_nobody_is_late_where_all_come_together() -> None:
    told = judged(Group("dp", range(4), lambda rank, step: 0.0001 * rank))
    assert (told.kind, told.ranks) == (Lateness.EVEN, ())


def test_ranks_that_are_late_in_turns_are_nobodys_fault() -> None:
    told = judged(Group("dp", range(4), lambda rank, step: 0.1 * (rank == step % 4)))
    assert told.kind is Lateness.UNEVEN
    assert told.lost == pytest.approx(0.5, abs=0.02)


def test_all_ranks_of_a_slow_host_are_late_together() -> None:
    told = judged(Group("dp", range(8), lambda rank, step: 0.1 * (rank >= 4)))
    assert told.ranks == (4, 5, 6, 7)


def test_where_most_are_late_the_others_are_early() -> None:
    assert judged(Group("dp", range(8), lambda rank, step: 0.1 * (rank >= 2))).kind is not Lateness.LATE


def test_too_few_collectives_tell_nothing() -> None:
    assert judged(Group("dp", range(2), lambda rank, step: 0.5 * rank, steps=2)).kind is Lateness.UNKNOWN


def test_clocks_that_can_not_be_compared_accuse_nobody() -> None:
    told = judged(
        Group("dp", range(2), lambda rank, step: 0.05 * rank), hosts=("h1", "h2"), ahead={"h1": 0.0, "h2": 0.0}
    )
    assert told.kind is Lateness.UNKNOWN


def test_a_broadcast_makes_nobody_wait_for_a_receiver() -> None:
    group = Group("dp", range(2), lambda rank, step: 0.3 * rank, calls=("broadcast [8] float32",))
    assert judged(group).kind is Lateness.UNKNOWN


@given(
    ranks=st.integers(2, 24),
    late=st.floats(0.05, 2.0),
    share=st.sampled_from([0.3, 0.5, 1.0]),
    noise=st.floats(0.0, 0.005),
    seed=st.integers(0, 2**32),
)
def test_the_late_rank_is_found_in_any_noise_that_is_smaller(
    ranks: int, late: float, share: float, noise: float, *, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    culprit = chance.randrange(ranks)
    steps = [chance.random() < share or step % 5 == 0 for step in range(60)]
    told = judged(
        Group(
            "dp",
            range(ranks),
            lambda rank, step: noise * chance.random() + late * (rank == culprit and steps[step]),
            steps=60,
            pause=0.05,
        )
    )
    assert (told.kind, told.ranks) == (Lateness.LATE, (culprit,))
    assert told.by == pytest.approx(late, abs=0.01)


@given(ranks=st.integers(2, 24), noise=st.floats(0.0, 0.05), seed=st.integers(0, 2**32))
def test_nobody_is_named_where_chance_alone_makes_ranks_late(ranks: int, noise: float, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    told = judged(Group("dp", range(ranks), lambda rank, step: noise * chance.random(), steps=200, pause=0.05))
    assert told.kind in (Lateness.EVEN, Lateness.UNEVEN)


@given(ahead=st.floats(-5.0, 5.0), ranks=st.sampled_from([4, 8]))
def test_a_clock_that_is_ahead_makes_no_rank_late(ahead: float, ranks: int) -> None:
    hosts = ["h1"] * (ranks // 2) + ["h2"] * (ranks // 2)
    shift = round(1e6 * ahead)
    trips = {"h1": [RoundTrip(0, 2000, 1000)], "h2": [RoundTrip(0, 2000, 1200 + shift)]}
    group = Group("dp", range(ranks), lambda rank, step: 0.2 * (rank == 1), steps=30)
    told = judged(group, hosts=hosts, ahead={"h2": ahead}, trips=trips)
    assert told.ranks == (1,)
    assert told.by == pytest.approx(0.2, abs=0.003)
