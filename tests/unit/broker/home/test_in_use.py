"""The runs that hold the broker of a home, by a real named pipe, and the moment when an unused broker leaves."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from dbg_broker.home.in_use import IN_USE_FILE, BrokerUsers, Leaving, hold
from tests.support.time_unit import seconds


def held_in(home: Path) -> int:
    descriptor = hold(home)
    assert descriptor is not None
    return descriptor


class Watched:
    """The users of a home's broker, with the changes that the event loop reports of them."""

    def __init__(self, home: Path) -> None:
        self._changed = asyncio.Event()
        self.changes = 0
        self.users = BrokerUsers(home, asyncio.get_running_loop(), self._note)

    def _note(self) -> None:
        self.changes += 1
        self._changed.set()

    async def change(self) -> bool:
        """Wait for the next change, and return whether a run holds the broker then."""
        await asyncio.wait_for(self._changed.wait(), seconds(20))
        self._changed.clear()
        return self.users.held


@pytest.fixture
async def watched(made_home: Path) -> AsyncIterator[Watched]:
    watched = Watched(made_home)
    yield watched
    watched.users.close()


# ----------------------------------------------------------------------------------------------------------- the pipe


async def test_a_run_is_known_from_its_hold_to_its_end(watched: Watched, made_home: Path) -> None:
    assert not watched.users.held
    for _ in range(3):
        descriptor = held_in(made_home)
        assert await watched.change()
        os.close(descriptor)
        assert not await watched.change()
    assert watched.changes == 6


async def test_without_a_broker_nobody_takes_hold(made_home: Path) -> None:
    assert hold(made_home) is None
    BrokerUsers(made_home, asyncio.get_running_loop(), lambda: None).close()

    assert (made_home / IN_USE_FILE).is_fifo()
    assert hold(made_home) is None


# -------------------------------------------------------------------------------------------------------- the leaving


@dataclass
class Timer:
    """The handle that ``Clock.call_later`` returns."""

    when: float
    call: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class Clock:
    """An event loop whose time the test sets, and which reads descriptors only when the test calls ``look``."""

    now: float = 0.0
    timers: list[Timer] = field(default_factory=list)
    readers: dict[int, Callable[[], None]] = field(default_factory=dict)

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.now + delay, call))
        return self.timers[-1]

    def add_reader(self, descriptor: int, call: Callable[[], None]) -> None:
        self.readers[descriptor] = call

    def remove_reader(self, descriptor: int) -> None:
        del self.readers[descriptor]

    def pass_to(self, now: float) -> None:
        self.now = now
        for timer in [timer for timer in self.timers if timer.when <= now]:
            self.timers.remove(timer)
            if not timer.cancelled:
                timer.call()

    def look(self) -> None:
        """Call all readers, as a loop does when their descriptors are readable."""
        for call in [*self.readers.values()]:
            call()


class Broker:
    """A broker that leaves after ten seconds without use."""

    def __init__(self, home: Path, idle: float | None = 10.0) -> None:
        self.clock = Clock()
        self.is_used = False
        self.left: list[float] = []
        self.leaving = Leaving(
            home, cast(asyncio.AbstractEventLoop, self.clock), lambda: self.is_used, self._leave, idle
        )

    def _leave(self) -> None:
        self.left.append(self.clock.now)


@pytest.fixture
def idle(made_home: Path) -> Iterator[Broker]:
    broker = Broker(made_home)
    yield broker
    broker.leaving.close()


def test_a_broker_that_nobody_ever_needed_leaves_once(idle: Broker, made_home: Path) -> None:
    idle.clock.pass_to(9.9)
    assert idle.left == []
    idle.clock.pass_to(10.0)
    idle.leaving.poll()
    idle.clock.pass_to(1000.0)

    assert idle.left == [10.0]
    assert hold(made_home) is None


def test_it_counts_anew_when_the_last_connection_is_gone(idle: Broker) -> None:
    idle.is_used = True
    idle.clock.pass_to(100.0)
    idle.is_used = False
    idle.leaving.poll()
    idle.clock.pass_to(109.9)
    assert idle.left == []
    idle.clock.pass_to(110.0)
    assert idle.left == [110.0]


def test_it_stays_for_ranks_that_outlive_their_run(idle: Broker, made_home: Path) -> None:
    run = held_in(made_home)
    idle.clock.look()
    idle.is_used = True
    os.close(run)
    idle.clock.look()
    idle.clock.pass_to(100.0)
    assert idle.left == []


def test_a_broker_that_was_started_by_hand_never_leaves(made_home: Path) -> None:
    broker = Broker(made_home, idle=None)
    run = held_in(made_home)
    broker.clock.look()
    os.close(run)
    broker.clock.look()
    broker.clock.pass_to(1e9)
    broker.leaving.close()

    assert broker.left == []
