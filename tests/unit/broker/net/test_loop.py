"""What the turns of an event loop took, and for how long keys may have waited."""

from __future__ import annotations

from bisect import bisect_left

from dbg_broker.net.loop import BOUNDS, Histogram, LoopTimes


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def only_class(histogram: Histogram) -> int:
    """Return the class of the only length that was counted."""
    assert sum(histogram.counts) == 1
    return histogram.counts.index(1)


def test_a_turn_lasts_from_one_wait_to_the_next() -> None:
    clock = Clock()
    times = LoopTimes(clock, lambda: clock.now / 10)
    times.goes_on(has_slept=True)
    clock.now += 0.2
    times.waits()
    clock.now += 50
    times.goes_on(has_slept=True)
    assert only_class(times.turns) == bisect_left(BOUNDS, 0.2)
    assert only_class(times.turns_processor) == bisect_left(BOUNDS, 0.02)
    assert abs(times.turns.total - 0.2) < 1e-9


def test_a_key_that_ended_the_loops_sleep_came_then() -> None:
    clock = Clock()
    times = LoopTimes(clock, clock)
    times.goes_on(has_slept=True)
    clock.now += 0.2
    times.waits()
    times.goes_on(has_slept=True)
    clock.now += 0.003
    times.key_is_passed_on()
    assert abs(times.keys.total - 0.003) < 1e-9


def test_a_key_found_without_sleep_may_have_come_during_the_turn_before() -> None:
    clock = Clock()
    times = LoopTimes(clock, clock)
    times.goes_on(has_slept=True)
    clock.now += 0.2
    times.waits()
    times.goes_on(has_slept=False)
    clock.now += 0.003
    times.key_is_passed_on()
    assert abs(times.keys.total - 0.203) < 1e-9
    assert abs(times.keys_processor.total - 0.203) < 1e-9


def test_a_timer_that_runs_early_is_not_late() -> None:
    times = LoopTimes(Clock(), Clock())
    times.timer_ran(-0.001)
    assert times.timers_late.total == 0
