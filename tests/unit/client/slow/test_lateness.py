from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.slow.collective_timings import UNKNOWN, RoundTrip, Shift, align, meetings_of
from dbg_client.slow.evidence import Shortage, shortages_of
from dbg_client.slow.lateness import GroupLateness, Lateness, judge
from dbg_wire.records.samples import ProcessorUse, RankSample
from tests.unit.client.slow.simulated import Group, Job


def judged(group: Group, **job: object) -> GroupLateness:
    """Return the lateness of one group."""
    (meetings,) = meetings_of(Job([group], **job).run())  # type: ignore[arg-type]
    return judge(meetings)


def test_a_rank_that_is_always_late_is_named_with_the_lost_time() -> None:
    samples = judged(Group("dp", range(4), lambda rank, step: 0.3 * (rank == 2)))
    assert (samples.kind, samples.ranks, samples.times, samples.count) == (Lateness.LATE, (2,), 50, 50)
    assert samples.by == pytest.approx(0.3)
    assert samples.lost == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("group", "job", "kind"),
    [
        (Group("dp", range(4), lambda rank, step: 0.0001 * rank), {}, Lateness.EVEN),
        (Group("dp", range(4), lambda rank, step: 0.1 * (rank == step % 4)), {}, Lateness.UNEVEN),
        (Group("dp", range(8), lambda rank, step: 0.1 * (rank >= 2)), {}, None),
        (Group("dp", range(2), lambda rank, step: 0.5 * rank, steps=2), {}, Lateness.UNKNOWN),
        (
            Group("dp", range(2), lambda rank, step: 0.05 * rank),
            {"hosts": ("h1", "h2"), "ahead": {"h1": 0.0, "h2": 0.0}},
            Lateness.UNKNOWN,
        ),
        (Group("dp", range(2), lambda rank, step: 0.3 * rank, calls=("broadcast",)), {}, Lateness.UNKNOWN),
    ],
    ids=["together", "in turns", "most are late", "too few", "clocks", "a broadcast"],
)
def test_no_rank_is_named_if_lateness_is_unclear(group: Group, job: dict[str, object], kind: Lateness | None) -> None:
    samples = judged(group, **job)
    assert samples.kind is not Lateness.LATE
    assert kind is None or samples.kind is kind


def test_all_ranks_of_a_slow_host_are_late_together() -> None:
    samples = judged(Group("dp", range(8), lambda rank, step: 0.1 * (rank >= 4)))
    assert samples.ranks == (4, 5, 6, 7)


@given(
    ranks=st.integers(2, 24),
    late=st.floats(0.05, 2.0),
    share=st.sampled_from([0.3, 0.5, 1.0]),
    noise=st.floats(0.0, 0.005),
    seed=st.integers(0, 2**32),
)
def test_a_late_rank_is_found_in_smaller_noise(
    ranks: int, late: float, share: float, noise: float, *, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    culprit = chance.randrange(ranks)
    steps = [chance.random() < share or step % 5 == 0 for step in range(60)]
    samples = judged(
        Group(
            "dp",
            range(ranks),
            lambda rank, step: noise * chance.random() + late * (rank == culprit and steps[step]),
            steps=60,
            pause=0.05,
        )
    )
    assert (samples.kind, samples.ranks) == (Lateness.LATE, (culprit,))
    assert samples.by == pytest.approx(late, abs=0.01)


@given(ranks=st.integers(2, 24), noise=st.floats(0.0, 0.05), seed=st.integers(0, 2**32))
def test_no_rank_is_named_if_lateness_is_random(ranks: int, noise: float, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    samples = judged(Group("dp", range(ranks), lambda rank, step: noise * chance.random(), steps=200, pause=0.05))
    assert samples.kind in (Lateness.EVEN, Lateness.UNEVEN)


@given(ahead=st.floats(-5.0, 5.0), ranks=st.sampled_from([4, 8]))
def test_a_clock_that_is_ahead_makes_no_rank_late(ahead: float, ranks: int) -> None:
    hosts = ["h1"] * (ranks // 2) + ["h2"] * (ranks // 2)
    shift = round(1e6 * ahead)
    trips = {"h1": [RoundTrip(0, 2000, 1000)], "h2": [RoundTrip(0, 2000, 1200 + shift)]}
    group = Group("dp", range(ranks), lambda rank, step: 0.2 * (rank == 1), steps=30)
    samples = judged(group, hosts=hosts, ahead={"h2": ahead}, trips=trips)
    assert samples.ranks == (1,)
    assert samples.by == pytest.approx(0.2, abs=0.003)


HOSTS = ("h1", "h2", "h3")
SECOND = 1_000_000


def test_a_round_trip_bounds_a_clock_from_both_sides() -> None:
    trips = {"h1": [RoundTrip(100, 110, 105)], "h2": [RoundTrip(100, 104, 1000), RoundTrip(200, 240, 1110)]}
    shifts = align(["h1", "h2"], trips)
    assert shifts["h1"] == Shift(-5, 5)
    assert shifts["h2"] == Shift(896, 900)
    assert shifts["h2"].middle == 898
    assert shifts["h2"].looseness == 2


def test_a_clock_set_between_round_trips_is_unknown() -> None:
    trips = {"h1": [RoundTrip(0, 10, 5)], "h2": [RoundTrip(0, 10, 5), RoundTrip(20, 30, 5000)]}
    assert align(["h1", "h2"], trips)["h2"] == UNKNOWN


@st.composite
def observed(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, list[RoundTrip]]]:
    """Draw true shifts, and what is seen of them by round trips with any delays."""
    delays = st.integers(0, SECOND)
    shifts = {host: draw(st.integers(-10 * SECOND, 10 * SECOND)) for host in HOSTS}
    trips: dict[str, list[RoundTrip]] = {}
    for host in HOSTS:
        for _ in range(draw(st.integers(0, 2))):
            asked, there, back = draw(st.integers(0, 5 * SECOND)), draw(delays), draw(delays)
            trips.setdefault(host, []).append(RoundTrip(asked, asked + there + back, asked + there + shifts[host]))
    return shifts, trips


@given(observed())
def test_clock_bounds_hold_for_any_network_delay(seen: tuple[dict[str, int], dict[str, list[RoundTrip]]]) -> None:
    shifts, trips = seen
    for host, shift in align(HOSTS, trips).items():
        assert shift.low <= shifts[host] <= shift.high


def sample(**changes: Any) -> RankSample:
    """Return a rank that lacks nothing in ten seconds."""
    return RankSample(clock=0, seconds=10.0, processors=ProcessorUse(**{"queued": 0.01, **changes}))


@pytest.mark.parametrize(
    ("others", "changes", "shortages"),
    [
        ({}, {}, ()),
        ({}, {"periods": 100, "throttled": 83, "quota": 0.5}, (Shortage.QUOTA,)),
        ({}, {"queued": 3.8}, (Shortage.CORE,)),
        ({"queued": 3.5}, {"queued": 3.8}, ()),
        ({"queued": None}, {"queued": None}, ()),
    ],
    ids=["nothing", "quota", "core", "as the others", "not reported"],
)
def test_a_shortage_is_found_by_comparison_with_other_ranks(
    others: dict[str, Any], changes: dict[str, Any], shortages: tuple[Shortage, ...]
) -> None:
    samples = {number: sample(**others) for number in range(3)} | {3: sample(**changes)}
    assert shortages_of(3, samples) == shortages
