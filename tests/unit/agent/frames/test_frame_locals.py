"""What is assigned to the locals of a frame is what its program sees, however often others look and assign."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from dbg_agent.frames.variables import read_locals, release, write_back


def values_after(assign: Callable[[FrameType, Any], object]) -> list[object]:
    """Return local, argument, closed-over and shared variable of a function after ``assign`` was called in it."""
    free = "free"

    def body(argument: str) -> list[object]:
        local, cell = "local", "cell"

        def shared() -> str:
            return cell

        assign(sys._getframe(), sys._getframe().f_locals)
        return [local, argument, free, shared()]

    return body("argument")


def put(frame: FrameType, known: Any, **values: object) -> None:
    """Assign in a debugger's copy of the locals, and write it back."""
    known.update(values)
    write_back(frame, known)


def test_all_kinds_of_variables_are_written_repeatedly_from_one_copy() -> None:
    def assign(frame: FrameType, known: Any) -> None:
        put(frame, known, local=1)
        put(frame, known, argument=2, free=3)
        put(frame, known, local=5, cell=4)

    assert values_after(assign) == [5, 2, 3, 4]


def test_a_tracing_debugger_can_still_assign_afterwards() -> None:
    def traced(frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line" and "late" not in frame.f_locals:
            known: Any = frame.f_locals
            put(frame, known, late=1)
            known["local"] = "traced"
        return traced

    def body() -> str:
        local = "local"
        sys._getframe().f_trace = traced
        sys.settrace(lambda *_: None)
        len(local)
        sys.settrace(None)
        return local

    before = sys.gettrace()
    try:
        assert body() == "traced"
    finally:
        sys.settrace(before)


def test_a_variable_missing_from_a_copy_is_kept() -> None:
    def assign(frame: FrameType, known: Any) -> None:
        values = {name: value for name, value in known.items() if name != "argument"}
        write_back(frame, {**values, "local": 1})

    assert values_after(assign)[:2] == [1 if sys.version_info < (3, 13) else "local", "argument"]


def test_a_module_body_assigns_its_globals() -> None:
    names: dict[str, Any] = {"sys": sys, "write_back": write_back}
    exec("f = sys._getframe(); f.f_locals['x'] = 3; write_back(f, f.f_locals); y = x", names)  # noqa: S102 - a module's body
    assert (names["x"], names["y"]) == (3, 3)


class Tensor:
    """A value whose end can be seen."""


def test_a_deleted_value_is_freed_after_its_frame_was_read() -> None:
    value, other = Tensor(), Tensor()
    ended, other_ended = weakref.ref(value), weakref.ref(other)
    frame = sys._getframe()
    assert "value" in read_locals(frame)
    del value
    assert ended() is None
    assert "other" in frame.f_locals
    release([frame])
    del other
    assert other_ended() is None


def test_the_programs_own_locals_are_kept() -> None:
    value = 3
    own = locals()
    release([sys._getframe()])
    assert own["value"] == value


@pytest.mark.parametrize("install", [sys.settrace, sys.setprofile])
def test_no_variable_is_lost_when_a_trace_function_reads_the_frame(install: Callable[[Any], None]) -> None:
    def traced(frame: FrameType, event: str, _arg: object) -> Any:
        assert frame.f_locals is not None
        release([frame])
        return traced

    def body(argument: int) -> int:
        local = argument + 1
        return local + argument

    before = sys.gettrace(), sys.getprofile()
    install(traced)
    try:
        assert body(3) == 7
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
