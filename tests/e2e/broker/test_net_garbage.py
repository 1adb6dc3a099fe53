"""What nobody refers to goes away, at moments that are chosen for it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator

import pytest

from dbg_broker.net.loop import TICK_SECONDS, WHOLE_AT_LATEST_SECONDS, WHOLE_SECONDS, GarbageCollection
from dbg_broker.timers import Timers


class Circle:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


class Clock:
    """Simulated time, and the next call that is due."""

    def __init__(self) -> None:
        self.now = 0.0
        self.types = False
        self.due: list[Callable[[], None]] = []
        self.garbage = GarbageCollection(lambda: self.types, Timers(lambda: self.now, self._schedule))

    def _schedule(self, seconds: float, call: Callable[[], None]) -> None:
        assert seconds == TICK_SECONDS
        self.due = [call]

    def look_at(self, now: float) -> None:
        self.now = now
        self.due[0]()


@pytest.fixture
def clock() -> Iterator[Clock]:
    before = gc.get_threshold()
    clock = Clock()
    clock.garbage.begin()
    yield clock
    gc.set_threshold(*before)
    gc.unfreeze()


def test_what_is_set_aside_goes_away_when_nobody_types(clock: Clock) -> None:
    circle = Circle()
    gc.collect()
    gc.freeze()
    is_gone = weakref.ref(circle)
    del circle
    clock.types = True
    clock.look_at(WHOLE_SECONDS)
    gc.collect()
    assert is_gone() is not None
    clock.types = False
    clock.look_at(WHOLE_SECONDS + 1)
    assert is_gone() is None


def test_what_is_set_aside_goes_away_at_last_though_somebody_types(clock: Clock) -> None:
    circle = Circle()
    gc.collect()
    gc.freeze()
    is_gone = weakref.ref(circle)
    del circle
    clock.types = True
    clock.look_at(WHOLE_AT_LATEST_SECONDS)
    assert is_gone() is None


def test_python_itself_goes_through_young_objects_alone(clock: Clock) -> None:
    before = gc.get_stats()[2]["collections"]
    circles = [Circle() for _ in range(50_000)]
    assert gc.get_stats()[2]["collections"] == before
    assert gc.get_count()[2] > 0
    clock.look_at(TICK_SECONDS)
    assert gc.get_stats()[2]["collections"] == before + 1
    assert gc.get_freeze_count() > len(circles)
