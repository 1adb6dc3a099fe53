"""What the failures and successes of an address lead to."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.net import reputation
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

HOST = "10.0.0.1"


def with_failures(count: int, now: float = 0.0) -> Reputation:
    found = Reputation()
    for _ in range(count):
        found.failed(HOST, now)
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
    delays = [with_failures(count).delay(HOST, 0) for count in range(0, 400, 8)]
    assert delays[: int(FORGIVEN) // 8 + 1] == [0] * (int(FORGIVEN) // 8 + 1)
    assert delays == sorted(delays)
    assert FIRST_DELAY_SECONDS in delays
    assert delays[-1] == LAST_DELAY_SECONDS
    assert with_failures(10**5).delay("10.0.0.2", 0) == 0


def test_failures_are_forgiven_with_time_and_by_successes() -> None:
    found = with_failures(100)
    assert found.is_slow(HOST, 0)
    assert not found.is_slow(HOST, 3 * HALF_LIFE_SECONDS)
    earning = with_failures(100)
    for _ in range(int(100 / EARNED)):
        earning.succeeded(HOST, 0)
    assert not earning.is_slow(HOST, 0)


def test_a_job_of_thousands_of_ranks_behind_one_address_has_no_failures_and_takes_no_memory() -> None:
    found = Reputation()
    for _ in range(2000):
        found.succeeded(HOST, 0)
    assert not found.is_slow(HOST, 0)
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
    assert sum(found.may_ask(HOST, 0) for _ in range(100)) == PAGES_AT_ONCE
    assert found.may_ask("10.0.0.2", 0)
    assert sum(found.may_ask(HOST, 1) for _ in range(100)) == PAGES_PER_SECOND


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
        getattr(found, what)(HOST, now)
        assert 0 <= found.delay(HOST, now) <= LAST_DELAY_SECONDS
