"""A debugger at work: the program's work is told as running if it takes long, and its own drawing never is."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pudb.debugger import DebuggerUI

from dbg_agent.debuggers import busy
from dbg_agent.debuggers.busy import Busy
from dbg_agent.debuggers.pudb_ui import _SafeWindow
from dbg_agent.stop.interruptible import Interruptible
from dbg_agent.stop.stops import SLOW_STEP_SECONDS, Stops
from dbg_wire.messages import Action, Kind
from dbg_wire.records.ranks import RankState
from tests.unit.agent.pdb_driver import SECONDS
from tests.unit.agent.pudb_viewer import Viewer, answer_of, answers_to, asks, play

SHORT, LONG = 0.6 * SLOW_STEP_SECONDS, 1.1 * SLOW_STEP_SECONDS


class RankAtStop:
    """A rank with an open debugger, and the time as the test sets it."""

    def __init__(self) -> None:
        self.told: list[bool] = []
        self.stops = Stops(lambda: self.told.append(self.stops.is_busy))
        self.interruptible = Interruptible(self.call_later)
        self.busy = Busy(self.interruptible, self.stops, self.call_later)
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
    monkeypatch.setattr(busy, "time", at_stop)
    at_stop.stops.arrive(sys._getframe(), "breakpoint")
    at_stop.stops.open_session("pudb", 24, 80)
    at_stop.told.clear()
    yield at_stop
    at_stop.stops.end()


def test_only_one_long_call_of_the_program_is_told_until_it_is_over(rank: RankAtStop) -> None:
    with rank.busy.interruptible():
        # By itself the debugger may take as long as it likes.
        rank.wait(LONG)
        assert not rank.busy.is_working
        with rank.busy.working():
            rank.wait(SHORT)
            assert rank.busy.is_working
        rank.wait(LONG)
        assert rank.told == []
        with rank.busy.working():
            # Many short calls are not one long call.
            for _ in range(10):
                rank.busy.goes_on()
                rank.wait(SHORT)
            assert rank.told == []
            rank.busy.goes_on()
            rank.wait(LONG)
            assert rank.told == [True]
            rank.busy.goes_on()
            assert rank.told == [True, False]
            rank.wait(LONG)
        assert rank.told == [True, False] * 2


DRAWING = [(DebuggerUI, "set_current_line"), (DebuggerUI, "update_stack"), (_SafeWindow, "render")]
"""Parts of PuDB's drawing that the program has no part in: the source, the rows of the stack, the layout."""


class Gate:
    """A gate in PuDB's drawing, and a clock for the rank: what is due is called when the test says so."""

    def __init__(self, viewer: Viewer, monkeypatch: pytest.MonkeyPatch, place: type, name: str) -> None:
        self.reached = threading.Event()
        self._is_open = threading.Event()
        self._is_open.set()
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._monkeypatch = monkeypatch
        viewer.network.later = lambda seconds, call: self._due.append((seconds, call))
        usual = getattr(place, name)

        def draw(*arguments: object, **options: object) -> object:
            if not self._is_open.is_set():
                self.reached.set()
                assert self._is_open.wait(SECONDS)
            return usual(*arguments, **options)

        monkeypatch.setattr(place, name, draw)

    @contextmanager
    def closed(self) -> Iterator[None]:
        self._is_open.clear()
        try:
            yield
        finally:
            self._is_open.set()

    def time_passes(self) -> None:
        """Call what was due at some time, what is due soonest first; whatever has begun has taken long by now."""
        due, self._due = self._due, []
        with self._monkeypatch.context() as patched:
            patched.setattr(busy, "SLOW_STEP_SECONDS", 0.0)
            for _, call in sorted(due, key=lambda one: one[0]):
                call()


@contextmanager
def drawing(viewer: Viewer, gate: Gate) -> Iterator[None]:
    """Have PuDB draw a step for as long as this block takes."""
    viewer.opens()
    with gate.closed():
        viewer.type(b"n")
        assert gate.reached.wait(SECONDS)
        yield


@pytest.mark.parametrize(("place", "name"), DRAWING)
def test_a_rank_whose_pudb_draws_for_long_is_told_as_stopped_and_questions_wait_for_that(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch, place: type, name: str
) -> None:
    gate = Gate(viewer, monkeypatch, place, name)

    def script() -> None:
        with drawing(viewer, gate):
            asks(viewer, Action.EVAL, 3, "total + 41")
            asks(viewer, Action.COMMAND, 4, "n")
            gate.time_passes()
            assert viewer.rank.rank_report().state is RankState.STOPPED
            asks(viewer, Action.INTERRUPT, 5)
            assert answer_of(viewer, 5)[0] == Kind.VALUE.value
            assert answers_to(viewer, 3) == answers_to(viewer, 4) == []
        assert answer_of(viewer, 3) == ("value", "42")
        assert answer_of(viewer, 4)[0] == "value"
        viewer.does((b"", "> total += 2"), (b"c", ""))

    assert play(viewer, script) == 7
