"""Stacks as they are told: without our own frames, and bounded."""

from __future__ import annotations

import sys
import threading
from types import FrameType

import pytest

from dbg_agent.stop.stacks import is_own, stack_of, thread_frame, traceback_of
from dbg_wire.limits import MAX_STACK_FRAMES


def deep(calls: int) -> FrameType:
    return sys._getframe() if calls == 0 else deep(calls - 1)


def raises() -> None:
    raise ValueError


def test_a_stack_ends_at_its_frame_and_has_the_callers_before_it() -> None:
    stack = stack_of(deep(2))
    assert [place.function for place in stack[-4:]] == [
        "test_a_stack_ends_at_its_frame_and_has_the_callers_before_it",
        "deep",
        "deep",
        "deep",
    ]
    assert stack[-1].file == __file__


def test_the_middle_of_a_very_deep_stack_is_left_out_and_counted() -> None:
    stack = stack_of(deep(600))
    assert len(stack) == MAX_STACK_FRAMES
    assert stack[-1].function == "deep"
    (note,) = [place for place in stack if not place.file]
    assert "frames left out" in note.function


@pytest.mark.parametrize("module", ["dbg_agent.rank.rank", "dbg_dial.dial", "dbg_wire.codec"])
def test_our_own_frames_are_not_told(module: str) -> None:
    namespace = {"__name__": module, "sys": sys}
    exec("def ours(call): return call()", namespace)  # noqa: S102 - a module that says it is ours
    frame = namespace["ours"](sys._getframe)  # type: ignore[operator]
    assert is_own(frame)
    assert frame.f_code.co_name == "ours"
    assert stack_of(frame)[-1].function == "test_our_own_frames_are_not_told"


def test_a_traceback_is_told_to_where_it_was_raised() -> None:
    try:
        raises()
    except ValueError as error:
        places = traceback_of(error.__traceback__)
    assert [place.function for place in places] == [
        "test_a_traceback_is_told_to_where_it_was_raised",
        "raises",
    ]


def test_another_thread_is_found_and_one_that_ended_is_not() -> None:
    inside, leave = threading.Event(), threading.Event()

    def wait_inside() -> None:
        inside.set()
        leave.wait()

    thread = threading.Thread(target=wait_inside)
    thread.start()
    assert inside.wait(10)
    assert "wait_inside" in [place.function for place in stack_of(thread_frame(thread.ident))]
    leave.set()
    thread.join()
    assert thread_frame(thread.ident) is None
