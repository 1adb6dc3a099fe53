"""No token of others and no address takes all places; who waits for the broker is not closed for newcomers."""

from __future__ import annotations

import asyncio
import socket
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.home.certificate import load_own
from dbg_broker.net import reputation
from dbg_broker.net.connection import PeerConnection
from dbg_broker.net.connections import Connections
from dbg_broker.net.handshakes import GIVEN_TO_EACH, Handshakes
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
    network_of,
)
from dbg_broker.net.transport import SocketTransport
from dbg_broker.net.turns import STRANGERS_SECONDS, Entrance
from dbg_broker.timers import Timers
from tests.conftest import Approved
from tests.unit.broker.peers import SECONDS, Broker, running_broker

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


def test_a_turn_has_a_bounded_time_for_all_strangers() -> None:
    loop = Loop()
    come(loop, "a", "0123456789")
    assert [loop.turn() for _ in range(4)] == [list("0123"), list("4567"), list("89"), []]
    assert len(loop.entrance) == 0


def test_addresses_take_it_in_turn() -> None:
    loop = Loop()
    come(loop, "flood", "0123456789")
    come(loop, "other", "ab")
    assert loop.turn() == list("0a1b")


def test_a_connection_with_more_to_read_goes_to_the_end_of_its_addresss_line() -> None:
    loop = Loop()
    loop.entrance.submit(Stranger(loop, "x", 3).work, "a", is_slow=False)
    come(loop, "a", "y")
    assert loop.turn() == list("xyxx")


def test_the_slow_line_has_what_the_other_leaves_and_never_stands_still() -> None:
    loop = Loop()
    come(loop, "bad", "XYZ", is_slow=True)
    come(loop, "good", "012345")
    assert [loop.turn() for _ in range(3)] == [list("0123X"), list("45YZ"), []]


def test_nobody_is_served_without_room_and_the_slow_line_has_its_part_of_that() -> None:
    loop = Loop()
    loop.room = 2
    come(loop, "bad", "XYZ", is_slow=True)
    come(loop, "good", "01234567")
    turns = []
    for _ in range(4):
        turns.append(loop.turn())
        loop.done = []
        loop.entrance.go_on()
    assert turns == [list("01"), list("X2"), list("Y3"), list("Z4")]
    loop.room = 0
    assert loop.turn() == []
    assert loop.turn() == []
    assert len(loop.entrance) == 3
    loop.room = 1000
    loop.entrance.go_on()
    assert loop.turn() == list("567")


def test_one_whose_handshake_is_complete_goes_first_among_those_of_its_address() -> None:
    loop = Loop()
    come(loop, "a", "01")
    come(loop, "b", "x")
    loop.entrance.submit(Stranger(loop, "2").work, "a", is_slow=False, is_ahead=True)
    assert loop.turn() == list("2x01")


@pytest.fixture
def shaking(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Note for each step of a handshake whether the loop's thread did it."""
    steps: list[bool] = []
    shake = SocketTransport.shake

    def noted(transport: SocketTransport) -> None:
        steps.append(threading.current_thread() is threading.main_thread())
        shake(transport)

    monkeypatch.setattr(SocketTransport, "shake", noted)
    return steps


async def readers_of(broker: Broker) -> int:
    """Return how often the loop was told to read a connection until that is a rank's."""
    loop, added = asyncio.get_running_loop(), []
    add_reader = loop.add_reader
    ours = broker.server.listener.fileno()

    def counted(fd: int, *args: object) -> None:
        if fd != ours:
            added.append(fd)
        add_reader(fd, *args)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loop, "add_reader", counted)
        await broker.rank()
    return len(added)


async def test_a_thread_answers_the_hello_and_the_loop_does_the_rest(tmp_path: Path, shaking: list[bool]) -> None:
    async with running_broker(tmp_path, tls=True) as broker:
        readers = await readers_of(broker)
    in_thread, *others = shaking
    assert not in_thread
    # A slow thread finds the peer's last word in its own step.
    assert all(others)
    assert len(others) <= 1
    assert readers == 1 + len(shaking)


async def test_a_connection_without_tls_is_given_to_the_loop_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        assert await readers_of(broker) == 1


async def test_a_server_that_stops_leaves_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    async with running_broker(tmp_path, tls=True) as broker:
        await broker.rank()
        assert threading.active_count() > before
    assert not any(thread.name == "dbg-broker-tls" for thread in threading.enumerate())


async def test_the_threads_are_given_few_at_a_time_and_each_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, context = asyncio.get_running_loop(), load_own(tmp_path).context
    timers = Timers(loop.time, loop.call_later)
    pool, owner, come_back = Handshakes(timers), Connections(timers), asyncio.Event()
    may_go_on, pairs, given, back = threading.Event(), [socket.socketpair() for _ in range(50)], [], []

    def shake(_: SocketTransport) -> None:
        may_go_on.wait(SECONDS)

    def lend(transport: SocketTransport) -> bool:
        given.append(transport)
        return True

    def take_back(transport: SocketTransport) -> None:
        back.append(transport)
        if len(back) == len(pairs):
            come_back.set()

    for changed in (shake, lend, take_back):
        monkeypatch.setattr(SocketTransport, changed.__name__, changed)
    for near, _ in pairs:
        transport = SocketTransport(near, PeerConnection(1, "10.0.0.1:1", owner), context)
        pool.submit(transport, "10.0.0.1", is_slow=False)
    for _ in range(10):
        await asyncio.sleep(0)
    assert GIVEN_TO_EACH <= len(given) < len(pairs)
    assert len(given) % GIVEN_TO_EACH == 0
    may_go_on.set()
    await asyncio.wait_for(come_back.wait(), SECONDS)
    assert set(back) == set(given)
    pool.close()
    for transport in given:
        transport.abort()
    for near, far in pairs:
        near.close()
        far.close()


HOST_REPUTATION = "10.0.0.1"


def with_failures(count: int, now: float = 0.0) -> Reputation:
    found = Reputation()
    for _ in range(count):
        found.failed(HOST_REPUTATION, now)
    return found


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("[2001:db8:1:2:3:4:5:6]", "2001:db8:1:2::/64"),
        ("[fe80::1%eth0]", "fe80::/64"),
        ("[::ffff:10.0.0.1]", "10.0.0.1"),
        ("[no address]:", "[no address]:"),
        ("?", "?"),
    ],
)
def test_a_host_of_ipv6_is_counted_by_its_network(host: str, network: str) -> None:
    assert network_of(host) == network


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


def test_a_job_of_thousands_of_ranks_behind_one_address_has_no_failures_and_takes_no_memory() -> None:
    found = Reputation()
    for _ in range(2000):
        found.succeeded(HOST_REPUTATION, 0)
    assert not found.is_slow(HOST_REPUTATION, 0)
    assert len(found) == 0


def test_refusals_wait_in_bounded_number_of_an_address_and_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reputation, "MAX_HELD_OF_ADDRESS", 2)
    monkeypatch.setattr(reputation, "MAX_HELD", 3)
    found = Reputation()
    assert [found.may_hold(host, 0) for host in ("a", "a", "a", "b", "c")] == [True, True, False, True, False]
    found.let_go("a")
    assert found.may_hold("c", 0)


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


@given(st.lists(st.tuples(st.sampled_from(["failed", "succeeded", "may_ask"]), st.floats(0, 5)), max_size=60))
def test_delays_stay_within_their_bounds_whatever_happens(events: list[tuple[str, float]]) -> None:
    found, now = Reputation(), 0.0
    for what, passed in events:
        now += passed
        getattr(found, what)(HOST_REPUTATION, now)
        assert 0 <= found.delay(HOST_REPUTATION, now) <= LAST_DELAY_SECONDS
