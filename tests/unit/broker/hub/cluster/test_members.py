"""Which brokers there are."""

from __future__ import annotations

import pytest

from dbg_broker.hub.cluster.members import GONE_SECONDS, MAX_MEMBERS, Members, read_presence
from dbg_broker.timers import Timers
from dbg_wire.errors import PeerError
from tests.unit.broker.hub.cluster.brokers import presence


class Clock:
    """Members of a broker, with a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        self.told: list[str] = []
        timers = Timers(clock=lambda: self.now, schedule=lambda seconds, call: None)
        came, gone = (lambda name, greets: self.told.append(f"+{name}")), (lambda name: self.told.append(f"-{name}"))
        self.members = Members(presence("me"), timers, came, gone)


def test_a_broker_comes_with_its_first_heartbeat_and_is_gone_some_seconds_after_its_last() -> None:
    clock = Clock()
    clock.members.saw(presence("other"))
    clock.now += GONE_SECONDS - 0.5
    clock.members.saw(presence("other"))
    clock.now += GONE_SECONDS - 0.5
    clock.members.poll(clock.now)
    assert clock.told == ["+other"]
    assert clock.members.find("other") == presence("other")
    clock.now += 0.5
    clock.members.poll(clock.now)
    assert clock.told == ["+other", "-other"]
    assert clock.members.find("other") is None
    assert clock.members.others() == ()


def test_the_own_heartbeat_is_nobody_else() -> None:
    clock = Clock()
    clock.members.saw(presence("me"))
    assert clock.told == []
    assert len(clock.members) == 0


def test_a_broker_that_says_that_it_ends_is_gone_at_once() -> None:
    clock = Clock()
    clock.members.saw(presence("other"))
    clock.members.left("other")
    clock.members.left("other")
    assert clock.told == ["+other", "-other"]


def test_who_was_away_itself_takes_nobody_for_gone() -> None:
    clock = Clock()
    clock.members.saw(presence("other"))
    clock.now += 60.0
    clock.members.excuse(clock.now)
    clock.members.poll(clock.now)
    assert clock.told == ["+other"]


def test_no_more_brokers_are_kept_than_a_cluster_has() -> None:
    clock = Clock()
    for number in range(MAX_MEMBERS + 1):
        clock.members.saw(presence(f"broker-{number}"))
    assert len(clock.members) == MAX_MEMBERS


def test_a_presence_is_read_as_it_was_written() -> None:
    clock = Clock()
    assert read_presence(clock.members.value()) == presence("me")
    with pytest.raises(PeerError, match="can't be read"):
        read_presence(b"{}")


def test_one_of_the_brokers_that_tell_events_tells_those_of_a_run() -> None:
    names = ("a", "b", "c", "d")
    told = {}
    for name in names:
        own = presence(name).replace(tells=name != "d")
        members = Members(own, Clock().members._timers, lambda _, greets: None, lambda _: None)
        for other in names:
            members.saw(presence(other).replace(tells=other != "d"))
        told[name] = {run for run in map(str, range(30)) if members.speaks_for(run)}
    assert not told["d"]
    assert all(told[name] for name in "abc")
    assert sorted(run for runs in told.values() for run in runs) == sorted(map(str, range(30)))
