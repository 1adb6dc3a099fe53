"""One current stop per rank; further threads queue; a stop never outlives its thread."""

from __future__ import annotations

import sys
import threading

import pytest

from dbg_agent.stop.stops import StopEvent, StopPhase, Stops, move_stop
from dbg_wire.errors import InvalidTransition
from dbg_wire.messages import RankReport
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved


class Watched:
    """Stops, with changes that a test can wait for."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.stops = Stops(self.changed)

    def changed(self) -> None:
        with self.condition:
            self.condition.notify_all()

    def wait_for_queued(self, count: int) -> None:
        with self.condition:
            assert self.condition.wait_for(lambda: self.stops.queued == count, 10)

    def report(self) -> RankReport:
        return self.stops.report(breakpoints=0, generation=0, applied=0)


def test_a_stop_passes_through_its_phases_and_is_reported() -> None:
    watched = Watched()
    stops = watched.stops
    assert watched.report().state is RankState.RUNNING
    stops.arrive(sys._getframe(), "breakpoint")
    report = watched.report()
    assert report.stop is not None
    assert (report.state, report.stop.number, report.stop.reason) == (RankState.STOPPED, 1, "breakpoint")
    assert report.stop.where.function == "test_a_stop_passes_through_its_phases_and_is_reported"
    session, arrived = stops.open_session("pudb", 30, 100), stops.halted_since
    assert stops.current == (1, session.number)
    stops.step()
    assert watched.report().state is RankState.STOPPED, "a quick step does not show"
    stops.halt(sys._getframe())
    assert stops.current == (1, session.number), "a step keeps stop and session"
    assert 0 < arrived < stops.halted_since, "the time counts from the step's end"
    stops.end()
    assert stops.current[0] is None
    assert watched.report().state is RankState.RUNNING


def test_a_slow_step_shows_as_running_with_its_stop_kept() -> None:
    watched = Watched()
    stops = watched.stops
    stops.arrive(sys._getframe(), "breakpoint")
    stops.open_session("pudb", 30, 100)
    number = stops.step()
    stops.step_is_slow(number)
    report = watched.report()
    assert (report.state, report.stepping) == (RankState.RUNNING, True)
    assert report.stop is not None
    stops.halt(sys._getframe())
    assert watched.report().state is RankState.STOPPED
    stops.step_is_slow(number)
    assert watched.report().state is RankState.STOPPED, "the timer of a step that has ended changes nothing"


def test_a_second_thread_queues_and_gets_its_own_stop() -> None:
    watched = Watched()
    stops = watched.stops
    stops.arrive(sys._getframe(), "breakpoint")
    numbers: list[int] = []

    def second() -> None:
        stops.arrive(sys._getframe(), "breakpoint")
        numbers.append(stops.number)
        stops.end()

    thread = threading.Thread(target=second)
    thread.start()
    watched.wait_for_queued(1)
    assert watched.report().queued == 1
    assert numbers == []
    stops.end()
    thread.join(10)
    assert numbers == [2]
    assert stops.phase is StopPhase.NONE


def test_a_thread_that_ends_in_the_middle_of_a_step_ends_its_stop() -> None:
    watched = Watched()
    stops = watched.stops

    def step_out_of_the_thread() -> None:
        stops.arrive(sys._getframe(), "breakpoint")
        stops.open_session("pudb", 30, 100)
        stops.step()

    thread = threading.Thread(target=step_out_of_the_thread)
    thread.start()
    thread.join(10)
    with watched.condition:
        assert watched.condition.wait_for(lambda: stops.phase is StopPhase.NONE, 10)


def test_an_illegal_move_is_refused(approved: Approved) -> None:
    with pytest.raises(InvalidTransition) as caught:
        Stops(lambda: None).step()
    approved(str(caught.value))


def test_a_turn_left_unused_by_an_exception_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()

    def interrupted(_frame: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dbg_agent.stop.stops.place_of", interrupted)
        with pytest.raises(KeyboardInterrupt):
            watched.stops.arrive(sys._getframe(), "breakpoint")
    assert (watched.stops.phase, watched.stops.is_mine(), watched.stops.queued) == (StopPhase.NONE, False, 0)
    watched.stops.arrive(sys._getframe(), "breakpoint")
    assert (watched.stops.phase, watched.stops.is_mine()) == (StopPhase.WAITING, True)


def test_every_stop_can_end() -> None:
    for phase in StopPhase:
        if phase is not StopPhase.NONE:
            assert move_stop(phase, StopEvent.ENDS) is StopPhase.NONE
    with pytest.raises(InvalidTransition):
        move_stop(StopPhase.NONE, StopEvent.ENDS)
