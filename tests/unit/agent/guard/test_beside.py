"""What is made of py-spy's output, and of its absence; the real one is in test_exec."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from dbg_agent.guard.beside import NoStack, find_program, frames_of
from dbg_wire.limits import MAX_STACK_BYTES
from dbg_wire.records.record import size_of
from tests.conftest import Approved


def thread(number: int, *names: str, pid: int = 7, module: str | None = None) -> dict[str, object]:
    frames = [{"name": name, "filename": f"/src/{name}.py", "module": module, "line": 3} for name in names]
    return {"pid": pid, "os_thread_id": number, "frames": frames}


def test_the_main_thread_is_told_outermost_frame_first_without_ours() -> None:
    text = json.dumps([thread(9, "pump"), thread(7, "inner", "outer")])
    assert [place.function for place in frames_of(text, 7, ())] == ["outer", "inner"]
    # In a container the guard may know the rank by another number than the kernel outside of it.
    assert [place.function for place in frames_of(text, 4711, ())] == ["outer", "inner"]
    assert frames_of(text, 7, ("/src",)) == ()


def test_of_frames_with_long_names_the_inner_ones_are_told_and_the_others_counted() -> None:
    names = [f"f{number}<{'int, ' * 700}>" for number in range(300)]
    frames = frames_of(json.dumps([thread(7, *names)]), 7, ())
    assert sum(map(size_of, frames)) < MAX_STACK_BYTES + 200
    assert frames[-1].function.startswith("f0<")
    assert frames[0].function == f"[{300 - (len(frames) - 1)} frames left out]"


def test_a_frame_of_c_code_is_told_with_its_library() -> None:
    (place,) = frames_of(json.dumps([thread(7, "wait", module="/lib/libc.so.6")]), 7, ())
    assert (place.file, place.function) == ("/lib/libc.so.6", "wait")


@pytest.mark.parametrize("text", ["", "[]", "{}", "[1]", '[{"pid": 1}]', "Error: x\x1b[2J"])
def test_what_is_no_stack_is_told(approved: Approved, text: str) -> None:
    with pytest.raises(NoStack) as error:
        frames_of(text, 7, ())
    approved(str(error.value))
    assert "\x1b" not in str(error.value)


def test_where_py_spy_is_missing_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(NoStack, match="`pip install py-spy`"):
        find_program({"PATH": str(tmp_path)})
    write(tmp_path, "exit 0")
    assert find_program({}) == find_program({"PATH": str(tmp_path)}) == str(tmp_path / "py-spy")


def write(folder: Path, script: str) -> None:
    """Put a program in the place of py-spy."""
    program = folder / "py-spy"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
