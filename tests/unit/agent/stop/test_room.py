"""Room on the stack is made close to the recursion limit, and the program finds its own limit afterwards."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from dbg_agent.stop import room
from dbg_agent.stop.room import make_room
from tests.support.calls import calls_left, with_calls_left
from tests.support.time_unit import seconds

SECONDS = seconds(20)

LEFT = 20
"""Calls that the stack has room for when a thread asks for FRAMES."""

FRAMES = 200


@pytest.fixture(autouse=True)
def own() -> Iterator[int]:
    """Return the limit of the program, which each test leaves."""
    limit = sys.getrecursionlimit()
    yield limit
    assert sys.getrecursionlimit() == limit


class Deep:
    """A thread close to the limit, which makes room and gives it back when it is told to."""

    def __init__(self) -> None:
        self.left = 0
        """How many calls fitted into the room when the thread gave it back."""
        self._is_deep, self._makes, self._has_made, self._ends = (threading.Event() for _ in range(4))
        self._thread = threading.Thread(target=with_calls_left, args=(LEFT, self._run), daemon=True)
        self._thread.start()
        assert self._is_deep.wait(SECONDS)

    def _run(self) -> None:
        self._is_deep.set()
        assert self._makes.wait(SECONDS)
        with make_room(FRAMES):
            self._has_made.set()
            self._ends.wait(SECONDS)
            self.left = calls_left()

    def make(self) -> None:
        self._makes.set()
        assert self._has_made.wait(SECONDS)

    def end(self) -> None:
        self._ends.set()
        self._thread.join(SECONDS)


def test_room_is_made_for_a_while(own: int) -> None:
    def call() -> tuple[int, int, int]:
        with make_room(FRAMES):
            inside = calls_left()
        return inside, sys.getrecursionlimit(), calls_left()

    inside, limit, after = with_calls_left(LEFT, call)
    assert inside >= FRAMES
    assert limit == own
    assert after <= LEFT


def test_room_is_made_only_where_the_limit_can_be_restored(own: int) -> None:
    def call() -> bool:
        try:
            made = make_room(FRAMES)
        except RecursionError:
            return False
        with made:
            return calls_left() >= FRAMES

    has_room = []
    for left in range(1, 12):
        has_room.append(with_calls_left(left, call))
        assert sys.getrecursionlimit() == own
    assert has_room == sorted(has_room)
    assert (has_room[0], has_room[-1]) == (False, True)


@pytest.mark.parametrize("first", [0, 1])
def test_the_last_of_two_deep_threads_restores_the_limit(first: int, own: int) -> None:
    deep = [Deep(), Deep()]
    for one in deep:
        one.make()
    deep[first].end()
    assert sys.getrecursionlimit() > own
    deep[1 - first].end()
    assert sys.getrecursionlimit() == own
    assert min(one.left for one in deep) >= FRAMES - 10


def test_a_thread_beyond_the_limit_that_ends_last(own: int) -> None:
    before = set(threading.enumerate())
    first = Deep()
    first.make()
    beyond = Deep()
    beyond.make()
    first.end()
    beyond.end()
    for thread in set(threading.enumerate()) - before:
        assert thread.name == "dbg-agent-limit"
        thread.join(SECONDS)
    assert sys.getrecursionlimit() == own


@pytest.mark.parametrize("deep_meanwhile", [False, True])
def test_a_limit_that_the_program_sets_meanwhile_stays(deep_meanwhile: bool, own: int) -> None:
    deep = Deep()
    deep.make()
    sys.setrecursionlimit(own + 1000)
    try:
        if deep_meanwhile:
            later = Deep()
            later.make()
            deep.end()
            assert sys.getrecursionlimit() > own + 1000
            later.end()
        else:
            deep.end()
        assert sys.getrecursionlimit() == own + 1000
    finally:
        sys.setrecursionlimit(own)


def test_a_signal_handler_may_make_room_at_each_line_of_it(own: int) -> None:
    """A trace function makes room where a handler of the program might: before one line in each round."""
    lines = 0

    def interrupted(frame: FrameType, event: str, _arg: Any) -> Callable[..., Any] | None:
        nonlocal lines
        if frame.f_code.co_filename != room.__file__:
            return None
        if event == "line":
            lines += 1
            if lines == at:
                with make_room(2 * FRAMES):
                    assert calls_left() >= 2 * FRAMES - 10
        return interrupted

    def call() -> int:
        sys.settrace(interrupted)
        try:
            with make_room(FRAMES):
                sys.settrace(None)
                inside = calls_left()
                sys.settrace(interrupted)
        finally:
            sys.settrace(None)
        return inside

    for at in range(1, 100):
        lines = 0
        assert with_calls_left(60, call) >= FRAMES
        assert sys.getrecursionlimit() == own
        if lines < at:
            break
    assert 20 < at < 99
