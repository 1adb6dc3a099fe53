"""No token of others and no address takes all places; who waits for the broker is not closed for newcomers."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.net.metrics import Budget
from dbg_broker.net.places import (
    Arrivals,
    Capacity,
    RankPlaces,
)
from dbg_broker.net.reputation import (
    EARNED,
    FIRST_DELAY_SECONDS,
    FORGIVEN,
    HALF_LIFE_SECONDS,
    LAST_DELAY_SECONDS,
    MAX_ADDRESSES,
    PAGES_AT_ONCE,
    PAGES_PER_SECOND,
    Reputation,
)
from dbg_broker.net.turns import STRANGERS_SECONDS, Entrance
from dbg_broker.timers import Timers
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


# connections without a first message


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


COST = STRANGERS_SECONDS / 4
"""Seconds that each piece of work takes here, in simulated time."""


class Loop:
    """An event loop with simulated time; a scheduled call runs in the next turn."""

    def __init__(self) -> None:
        self.now = 0.0
        self.done: list[str] = []
        self._next: list[Callable[[], None]] = []
        self.room = 1000
        self.entrance = Entrance(
            Timers(lambda: self.now, lambda _, call: self._next.append(call), spent=lambda: self.now),
            lambda: self.room > len(self.done),
        )

    def turn(self) -> list[str]:
        """Run the calls that are due, and return who did something."""
        self.done, due, self._next = [], self._next, []
        for call in due:
            call()
        return self.done


class Stranger:
    """A connection with some pieces to read."""

    def __init__(self, loop: Loop, name: str, pieces: int = 1) -> None:
        self.loop, self.name, self.pieces = loop, name, pieces

    def work(self, is_over: Callable[[], bool]) -> bool:
        assert is_over()
        self.pieces -= 1
        self.loop.done.append(self.name)
        self.loop.now += COST
        return self.pieces > 0


def come(loop: Loop, address: str, names: str, *, is_slow: bool = False) -> None:
    for name in names:
        loop.entrance.submit(Stranger(loop, name).work, address, is_slow=is_slow)


HOST_REPUTATION = "10.0.0.1"


def with_failures(count: int, now: float = 0.0) -> Reputation:
    found = Reputation()
    for _ in range(count):
        found.failed(HOST_REPUTATION, now)
    return found


def test_a_few_failures_delay_nobody_and_more_delay_for_longer_and_longer() -> None:
    delays = [with_failures(count).delay(HOST_REPUTATION, 0) for count in range(0, 400, 8)]
    assert delays[: int(FORGIVEN) // 8 + 1] == [0] * (int(FORGIVEN) // 8 + 1)
    assert delays == sorted(delays)
    assert FIRST_DELAY_SECONDS in delays
    assert delays[-1] == LAST_DELAY_SECONDS
    assert with_failures(10**5).delay("10.0.0.2", 0) == 0


def test_failures_are_forgiven_with_time_and_by_successes() -> None:
    found = with_failures(100)
    assert found.is_slow(HOST_REPUTATION, 0)
    assert not found.is_slow(HOST_REPUTATION, 3 * HALF_LIFE_SECONDS)
    earning = with_failures(100)
    for _ in range(int(100 / EARNED)):
        earning.succeeded(HOST_REPUTATION, 0)
    assert not earning.is_slow(HOST_REPUTATION, 0)


def test_pages_are_answered_at_a_rate() -> None:
    found = Reputation()
    assert sum(found.may_ask(HOST_REPUTATION, 0) for _ in range(100)) == PAGES_AT_ONCE
    assert found.may_ask("10.0.0.2", 0)
    assert sum(found.may_ask(HOST_REPUTATION, 1) for _ in range(100)) == PAGES_PER_SECOND


def test_the_table_of_addresses_is_bounded_and_takes_a_mebibyte() -> None:
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    found = Reputation()
    for number in range(MAX_ADDRESSES + 100):
        found.failed(f"2001:db8:0:{number:x}::/64", 0)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) == MAX_ADDRESSES
    assert after - before < 1.1 * 1024 * 1024
