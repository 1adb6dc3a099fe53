"""Only the program's work is told as running, and only if one call takes long; Ctrl-C finds the innermost work."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from dbg_agent.engines import faults as module
from dbg_agent.engines.faults import Busy
from dbg_agent.stop.interruptible import Interruptible
from dbg_agent.stop.stops import SLOW_STEP_SECONDS, Stops

SHORT, LONG = 0.6 * SLOW_STEP_SECONDS, 1.1 * SLOW_STEP_SECONDS


class RankAtStop:
    """A rank with an open debugger, and the time as the test sets it."""

    def __init__(self) -> None:
        self.told: list[bool] = []
        self.stops = Stops(lambda: self.told.append(self.stops.is_busy))
        self.interruptible = Interruptible(self.call_later)
        self.busy = Busy(cast("Any", self))
        self._now = 0.0
        self._due: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self._due.append((self._now + seconds, call))

    def monotonic(self) -> float:
        return self._now

    def wait(self, seconds: float) -> None:
        self._now += seconds
        due = [call for at, call in self._due if at <= self._now]
        self._due = [(at, call) for at, call in self._due if at > self._now]
        for call in due:
            call()


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch) -> Iterator[RankAtStop]:
    at_stop = RankAtStop()
    monkeypatch.setattr(module, "time", at_stop)
    at_stop.stops.arrive(sys._getframe(), "breakpoint")
    at_stop.stops.open_session("pudb", 24, 80)
    at_stop.told.clear()
    yield at_stop
    at_stop.stops.end()


def interrupted(rank: RankAtStop) -> None:
    """Wait for an interrupt that another thread asks for."""
    threading.Thread(target=rank.busy.interrupt).start()
    threading.Event().wait(20)
    pytest.fail("never interrupted")


def test_what_the_debugger_does_by_itself_is_never_told(rank: RankAtStop) -> None:
    with rank.busy.interruptible():
        rank.wait(LONG)
        assert not rank.busy.is_working
        with rank.busy.working():
            rank.wait(SHORT)
            assert rank.busy.is_working
        rank.wait(LONG)
    assert rank.told == []


def test_work_that_takes_long_is_told_until_it_is_over(rank: RankAtStop) -> None:
    with rank.busy.interruptible(), rank.busy.working():
        rank.wait(LONG)
        assert rank.told == [True]
    assert rank.told == [True, False]


def test_many_short_calls_are_not_told_and_a_long_one_among_them_is(rank: RankAtStop) -> None:
    with rank.busy.interruptible(), rank.busy.working():
        for _ in range(10):
            rank.busy.goes_on()
            rank.wait(SHORT)
        assert rank.told == []
        for _ in range(2):
            rank.busy.goes_on()
            rank.wait(SHORT)
            rank.wait(SHORT)
            assert rank.told.pop()
            rank.busy.goes_on()
            assert not rank.told.pop()
        rank.wait(SHORT)
    assert rank.told == []


def test_the_debugger_can_be_interrupted_before_and_after_the_programs_work_as_well(rank: RankAtStop) -> None:
    with rank.busy.interruptible():
        with pytest.raises(KeyboardInterrupt), rank.busy.working():
            interrupted(rank)
        assert not rank.busy.is_working
        with pytest.raises(KeyboardInterrupt):
            interrupted(rank)
    rank.busy.interrupt()


def test_the_programs_work_can_be_interrupted_while_the_debugger_waits_for_keys(rank: RankAtStop) -> None:
    """What waits for the stopped thread may have the debugger show another frame, with its values."""
    with rank.busy.interruptible(), rank.interruptible.suspended():
        rank.busy.interrupt()
        with pytest.raises(KeyboardInterrupt), rank.busy.working():
            interrupted(rank)
        rank.busy.interrupt()
