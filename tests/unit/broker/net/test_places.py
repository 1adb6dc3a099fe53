"""No token of others and no address takes all places; who waits for the broker is not closed for newcomers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.net.metrics import Budget
from dbg_broker.net.places import (
    ANSWERED_PATIENCE_SECONDS,
    FEW_AT_ONCE,
    FEW_OF_ADDRESS,
    FEW_RANKS,
    FEW_WAIT,
    LINE_SECONDS,
    LONGEST_LATER_SECONDS,
    MANY,
    PATIENCE_SECONDS,
    Arrivals,
    Capacity,
    Pace,
    RankPlaces,
)
from tests.conftest import Approved

JOB, HOST = b"a job's token", "10.0.0.1"


def fill(places: RankPlaces, token: bytes | None, address: str) -> int:
    """Take places until there is none, and return how many there were."""
    number = 0
    while not places.refusal(token, address):
        places.take(number, token, address)
        number += 1
    return number


def test_a_token_of_others_leaves_a_quarter_to_others(approved: Approved) -> None:
    places = RankPlaces(1000)
    assert fill(places, JOB, HOST) == 750
    approved(places.refusal(JOB, "10.0.0.2"))
    assert places.refusal(b"another job's", "10.0.0.2") == places.refusal(None, HOST) == ""
    places.leave(0)
    assert places.refusal(JOB, HOST) == ""


def test_an_address_leaves_an_eighth_to_others_even_with_the_homes_own_token() -> None:
    places = RankPlaces(1000)
    assert fill(places, None, HOST) == 875
    assert "875 ranks come from 10.0.0.1 already" in places.refusal(None, HOST)
    assert places.refusal(None, "10.0.0.2") == ""


def test_a_small_broker_has_room_for_a_job_from_one_host() -> None:
    assert fill(RankPlaces(8), JOB, HOST) == FEW_RANKS


# connections without a first message


def none() -> int:
    """Return that nobody waits in the kernel."""
    return 0


class Waiting:
    """Connections that wait, named by their numbers, by a clock that the test turns."""

    def __init__(self, descriptors: int = 1024) -> None:
        self.arrivals: Arrivals[int] = Arrivals(Capacity(descriptors))
        self.places = Capacity(descriptors).pending
        self.now = 0.0
        self.came = 0

    def come(self, address: str) -> tuple[int, Budget | None] | None:
        """Have one more come; what is to be closed for it leaves."""
        self.came += 1
        closed = self.arrivals.come(self.came, self.came, address, self.now)
        if closed is not None:
            self.arrivals.leave(closed[0])
        return closed


def test_one_that_says_nothing_is_closed_for_a_newcomer_after_its_time() -> None:
    waiting = Waiting()
    for number in range(waiting.places):
        assert waiting.come(f"10.0.0.{number}") is None
    waiting.now = PATIENCE_SECONDS
    assert waiting.come("10.0.1.0") == (1, Budget.WAITING)


def test_those_that_wait_for_their_turn_are_not_closed_and_of_one_address_with_many_the_last_is_turned_back() -> None:
    waiting = Waiting()
    for _ in range(waiting.places - 1):
        waiting.come("10.0.0.1" if waiting.came % 2 else "10.0.0.2")
    for number in range(1, waiting.places):
        waiting.arrivals.has_said(number)
    waiting.now = 100 * PATIENCE_SECONDS
    assert waiting.come("10.0.0.3") is None
    waiting.arrivals.has_said(waiting.came)
    assert waiting.arrivals.has_room(waiting.now, none)
    # The newcomer of an address with few gets in.
    closed = waiting.come("10.0.0.3")
    assert closed is not None
    assert closed[0] in (waiting.places - 2, waiting.places - 1)
    assert closed[1] is None
    # That of an address with most does not.
    assert waiting.come("10.0.0.1") == (waiting.came, None)


def test_an_honest_newcomer_waits_in_the_kernel_until_one_of_its_address_that_says_nothing_has_had_its_time() -> None:
    waiting = Waiting()
    for _ in range(waiting.places):
        waiting.come("10.0.0.1")
    assert not waiting.arrivals.has_room(waiting.now, none)
    waiting.now += PATIENCE_SECONDS
    assert waiting.arrivals.has_room(waiting.now, none)
    assert waiting.come("10.0.0.1") == (1, Budget.WAITING_OF_ADDRESS)


def test_if_all_wait_for_their_turn_and_no_address_has_many_newcomers_wait_in_the_kernel() -> None:
    waiting = Waiting()
    for number in range(1, waiting.places + 1):
        waiting.come(f"10.0.0.{number % 8}")
        waiting.arrivals.has_said(number)
    assert not waiting.arrivals.has_room(waiting.now + 100, none)
    waiting.arrivals.leave(7)
    assert waiting.arrivals.has_room(waiting.now, none)


def test_a_newcomer_who_would_wait_too_long_is_turned_back_at_once() -> None:
    waiting = Waiting(MANY)
    waiting.arrivals.pace = measured(100)
    in_line = waiting.arrivals.pace.in_line
    assert in_line == pytest.approx(100 * LINE_SECONDS, rel=0.1)
    for number in range(1, in_line + 1):
        assert waiting.come(f"10.0.{number % 200}.1") is None
        waiting.arrivals.has_said(number)
    assert not waiting.arrivals.has_room(waiting.now, none)
    assert waiting.arrivals.has_room(waiting.now, lambda: 1)
    # At once where it is the one to turn back, and else one of those who have most is closed for it.
    assert waiting.arrivals.turns_back("10.0.1.1", waiting.now)
    assert not waiting.arrivals.turns_back("10.1.0.1", waiting.now)
    closed = waiting.come("10.1.0.1")
    assert closed is not None
    assert closed[1] is None
    assert closed[0] > in_line - 200


def test_a_line_that_turns_out_to_be_too_long_is_cut_at_its_end_but_for_those_that_are_answered() -> None:
    waiting = Waiting(MANY)
    for number in range(1, 1001):
        waiting.come("10.0.0.1")
        waiting.arrivals.has_said(number)
    for number in range(1, 501):
        waiting.arrivals.owes(number, waiting.now)
        waiting.arrivals.has_said(number)
    assert waiting.arrivals.surplus(waiting.now) is None
    waiting.arrivals.pace = measured(0)
    closed = []
    while (surplus := waiting.arrivals.surplus(waiting.now)) is not None:
        closed.append(surplus)
        waiting.arrivals.leave(surplus[0])
    assert closed == [(number, None) for number in range(1000, 500, -1)]


def test_a_broker_that_lacks_something_turns_nobody_back_who_is_to_hear_so() -> None:
    arrivals: Arrivals[int] = Arrivals(Capacity(1024), lambda: "no memory")
    for number in range(FEW_OF_ADDRESS + 2):
        arrivals.come(number, number, "10.0.0.1", 0.0)
        arrivals.has_said(number)
    assert not arrivals.has_room(100.0, lambda: 10_000)
    assert arrivals.surplus(100.0) is None


def test_one_that_is_answered_has_more_time_than_one_that_has_said_nothing() -> None:
    waiting = Waiting()
    for number in range(1, waiting.places + 1):
        waiting.come(f"10.0.0.{number}")
        waiting.arrivals.has_said(number)
    waiting.arrivals.owes(2, waiting.now)
    waiting.now += PATIENCE_SECONDS
    assert waiting.arrivals.oldest(waiting.now) is None
    waiting.now += ANSWERED_PATIENCE_SECONDS
    assert waiting.arrivals.oldest(waiting.now) == 2


def test_those_that_are_admitted_are_counted_until_they_leave() -> None:
    waiting = Waiting()
    for address in ("10.0.0.1", "10.0.0.2"):
        waiting.come(address)
        waiting.arrivals.admit(waiting.came)
    waiting.arrivals.admit(99)
    assert waiting.arrivals.admitted == 2
    waiting.arrivals.leave(1)
    assert waiting.arrivals.admitted == 1


@given(st.lists(st.tuples(st.sampled_from(["come", "say", "owe", "leave"]), st.integers(1, 40), st.integers(0, 3))))
def test_whatever_happens_no_more_wait_than_may_and_the_counts_agree(steps: list[tuple[str, int, int]]) -> None:
    waiting = Waiting(16)
    for step, number, address in steps:
        waiting.now += 0.1
        if step == "come":
            waiting.come(f"10.0.0.{address}")
        elif step == "say":
            waiting.arrivals.has_said(number)
        elif step == "owe":
            waiting.arrivals.owes(number, waiting.now)
        else:
            waiting.arrivals.leave(number)
        assert len(waiting.arrivals) <= waiting.places
        assert waiting.arrivals.numbers() == set(waiting.arrivals.connections())
    for number in range(1, waiting.came + 1):
        waiting.arrivals.leave(number)
    assert len(waiting.arrivals) == 0
    assert waiting.arrivals.oldest(waiting.now + 1000) is None


# when others are to come


def measured(rate: float) -> Pace:
    """Return a pace that has seen so many a second for a while."""
    pace = Pace()
    for look in range(60):
        pace.look(int(look * rate / 4), FEW_WAIT, look / 4)
    return pace


def test_slots_follow_each_other_as_fast_as_newcomers_are_served() -> None:
    pace = measured(1000)
    slots = [pace.later(500, 100.0) for _ in range(2001)]
    assert 0.4 < slots[0] < 0.6
    assert 1.9 < slots[-1] - slots[0] < 2.1


def test_what_comes_while_nobody_waits_is_no_measure_of_what_could() -> None:
    pace = measured(1000)
    for look in range(60):
        pace.look(look, 0, 100 + look / 4)
    assert 0.4 < pace.later(500, 200.0) < 0.6


def test_a_slow_broker_has_few_on_their_way_in_and_keeps_nobody_waiting_for_ever() -> None:
    pace = measured(0)
    assert pace.at_once == pace.in_line == FEW_AT_ONCE == measured(100).at_once < measured(5000).at_once
    assert max(pace.later(1000, 0.0) for _ in range(1000)) == LONGEST_LATER_SECONDS
