from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from dbg_client.hang.slow.clocks import UNKNOWN, Passage, RoundTrip, Shift, align

HOSTS = ("h1", "h2", "h3")
SECOND = 1_000_000


def test_ranks_of_one_host_need_no_clock() -> None:
    assert align(["h1", "h1"], {}) == {"h1": Shift(0.0, 0.0)}


def test_a_round_trip_bounds_a_clock_from_both_sides() -> None:
    trips = {"h1": [RoundTrip(100, 110, 105)], "h2": [RoundTrip(100, 104, 1000), RoundTrip(200, 240, 1110)]}
    shifts = align(["h1", "h2"], trips)
    assert shifts["h1"] == Shift(-5, 5)
    assert shifts["h2"] == Shift(896, 900)
    assert shifts["h2"].middle == 898
    assert shifts["h2"].looseness == 2


def test_nothing_is_known_of_a_host_that_nothing_tells_of() -> None:
    shifts = align(["h1", "h2"], {})
    assert shifts["h1"] == Shift(0.0, 0.0)
    assert shifts["h2"] == UNKNOWN
    assert shifts["h2"].middle == 0.0
    assert math.isinf(shifts["h2"].looseness)


def test_a_clock_that_was_set_meanwhile_is_as_good_as_unknown() -> None:
    trips = {"h1": [RoundTrip(0, 10, 5)], "h2": [RoundTrip(0, 10, 5), RoundTrip(20, 30, 5000)]}
    assert align(["h1", "h2"], trips)["h2"] == UNKNOWN


def test_nobody_leaves_a_collective_before_the_last_has_come() -> None:
    # By its own clock h1 is out at 1000, and the last of h2 comes at 1500 by its own: h2 is ahead by 500 at least.
    passages = [Passage({"h1": 900, "h2": 1500}, {"h1": 1000}), Passage({"h1": 1900, "h2": 2400}, {"h2": 2520})]
    shift = align(["h1", "h2"], {}, passages)["h2"]
    assert (shift.low, shift.high) == (500, 620)


@st.composite
def observed(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, list[RoundTrip]], list[Passage]]:
    """Draw true shifts, and what is seen of them: any delays, and collectives that nobody leaves too early."""
    times = st.integers(0, 5 * SECOND)
    delays = st.integers(0, SECOND)
    shifts = {host: draw(st.integers(-10 * SECOND, 10 * SECOND)) for host in HOSTS}
    trips: dict[str, list[RoundTrip]] = {}
    for host in HOSTS:
        for _ in range(draw(st.integers(0, 2))):
            asked, there, back = draw(times), draw(delays), draw(delays)
            trips.setdefault(host, []).append(RoundTrip(asked, asked + there + back, asked + there + shifts[host]))
    passages = []
    for _ in range(draw(st.integers(0, 4))):
        came = {host: draw(times) for host in HOSTS}
        ended = {host: max(came.values()) + draw(delays) for host in HOSTS if draw(st.booleans())}
        passages.append(
            Passage(
                {host: at + shifts[host] for host, at in came.items()},
                {host: at + shifts[host] for host, at in ended.items()},
            )
        )
    return shifts, trips, passages


@given(observed())
def test_bounds_hold_whatever_the_network_does(
    seen: tuple[dict[str, int], dict[str, list[RoundTrip]], list[Passage]],
) -> None:
    shifts, trips, passages = seen
    reference = 0 if trips else shifts[HOSTS[0]]
    for host, shift in align(HOSTS, trips, passages).items():
        assert shift.low <= shifts[host] - reference <= shift.high


@given(observed())
def test_more_to_go_by_never_loosens_a_bound(
    seen: tuple[dict[str, int], dict[str, list[RoundTrip]], list[Passage]],
) -> None:
    _, trips, passages = seen
    alone, together = align(HOSTS, trips), align(HOSTS, trips, passages)
    assert all(together[host].looseness <= alone[host].looseness for host in HOSTS)
