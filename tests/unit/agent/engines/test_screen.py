"""What PuDB draws, and what the rank is told as meanwhile."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pudb.debugger import DebuggerUI

from dbg_agent.engines import faults
from dbg_agent.engines.pudb_ui import _SafeWindow
from dbg_agent.rank.rank import Rank
from dbg_wire.messages import Action
from dbg_wire.records.ranks import RankState
from tests.unit.agent.pudb_viewer import SECONDS, Viewer, answer_of, asks, let_go, play

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
            patched.setattr(faults, "SLOW_STEP_SECONDS", 0.0)
            for _, call in sorted(due, key=lambda one: one[0]):
                call()


def test_a_rank_that_draws_is_told_as_stopped_however_long_pudb_has_worked_before(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Terminals leave out what a running rank draws: the line before would stay marked as the current one."""
    told: list[RankState] = []
    due: list[Callable[[], None]] = []
    show = viewer.rank.debuggers.terminal.write
    viewer.network.later = lambda _seconds, call: due.append(call)

    def draw(data: bytes) -> None:
        while due:
            due.pop()()
        told.append(viewer.rank.rank_report().state)
        show(data)

    def script() -> None:
        # All that PuDB has begun has taken too long already, whenever the link's thread looks.
        monkeypatch.setattr(faults, "SLOW_STEP_SECONDS", 0.0)
        viewer.opens()
        viewer.type(b"nn")
        viewer.sees_current_line("total += 2")
        viewer.type(b"c")

    monkeypatch.setattr(viewer.rank.debuggers.terminal, "write", draw)
    assert play(viewer, script) == 7
    assert set(told) == {RankState.STOPPED}


@pytest.mark.parametrize(("place", "name"), DRAWING)
def test_a_rank_whose_pudb_draws_for_long_is_told_as_stopped_and_questions_wait_for_that(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch, place: type, name: str
) -> None:
    gate = Gate(viewer, monkeypatch, place, name)

    def script() -> None:
        viewer.opens()
        with gate.closed():
            viewer.type(b"n")
            assert gate.reached.wait(SECONDS)
            asks(viewer, Action.EVAL, 3, "total + 41")
            asks(viewer, Action.COMMAND, 4, "n")
            gate.time_passes()
            assert viewer.rank.rank_report().state is RankState.STOPPED
            asks(viewer, Action.INTERRUPT, 5)
            assert '"stopped already"' in answer_of(viewer, 5)
            assert not any('"request":3,' in answer or '"request":4,' in answer for answer in viewer.answers)
        assert '"42"' in answer_of(viewer, 3)
        assert '"value"' in answer_of(viewer, 4)
        viewer.sees_current_line("total += 2")
        viewer.type(b"c")

    assert play(viewer, script) == 7


def test_what_has_not_begun_when_its_time_is_over_is_not_done_later(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(viewer, monkeypatch, _SafeWindow, "render")

    def script() -> None:
        viewer.opens()
        with gate.closed():
            viewer.type(b"n")
            assert gate.reached.wait(SECONDS)
            asks(viewer, Action.COMMAND, 3, "n")
            asks(viewer, Action.CONTINUE, 4)
            gate.time_passes()
            gate.time_passes()
            for request in (3, 4):
                assert "draws the debugger" in answer_of(viewer, request)
        asks(viewer, Action.EVAL, 5, "total + 41")
        assert '"42"' in answer_of(viewer, 5)
        viewer.sees_current_line("total += 1")
        viewer.type(b"c")

    assert play(viewer, script) == 7


def test_a_question_that_waited_for_the_drawing_is_answered_as_by_a_running_rank_once_a_value_takes_long(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(viewer, monkeypatch, DebuggerUI, "set_current_line")
    is_slow, begun, goes_on = threading.Event(), threading.Event(), threading.Event()

    def text(_self: object) -> str:
        if is_slow.is_set():
            begun.set()
            assert goes_on.wait(SECONDS)
        return "slow"

    value = type("Slow", (), {"safely_stringify_for_pudb": text})()

    def program(rank: Rank) -> int:
        slow = value
        rank.stopping.stop(sys._getframe(), "breakpoint")
        total = 2
        del slow
        return total

    def script() -> None:
        viewer.opens()
        is_slow.set()
        with gate.closed():
            viewer.type(b"n")
            assert gate.reached.wait(SECONDS)
            asks(viewer, Action.EVAL, 3, "1 + 1")
            gate.time_passes()
        assert begun.wait(SECONDS)
        try:
            gate.time_passes()
            assert viewer.rank.rank_report().state is RankState.RUNNING
            assert '"running' in answer_of(viewer, 3)
        finally:
            goes_on.set()
        viewer.wait_for(lambda: viewer.rank.rank_report().state is RankState.STOPPED, "the value's end")
        let_go(viewer)

    assert play(viewer, script, program) == 2
