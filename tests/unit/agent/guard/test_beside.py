"""What is made of py-spy's output, and of its absence; the real one is in test_exec."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dbg_agent.guard import beside
from dbg_agent.guard.beside import NoStack, find_program, frames_of, is_below, stack_of
from dbg_wire.limits import MAX_STACK_BYTES
from dbg_wire.records.record import size_of


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
def test_what_is_no_stack_is_told(text: str) -> None:
    with pytest.raises(NoStack, match="which is no stack") as error:
        frames_of(text, 7, ())
    assert "\x1b" not in str(error.value)


def test_where_py_spy_is_missing_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(NoStack, match="`pip install py-spy`"):
        find_program({"PATH": str(tmp_path)})
    write(tmp_path, "exit 0")
    assert find_program({}) == find_program({"PATH": str(tmp_path)}) == str(tmp_path / "py-spy")


@pytest.mark.parametrize(
    ("script", "scope", "why"),
    [
        ("echo 'Permission Denied: Try again'; exit 1", "", "capability SYS_PTRACE"),
        ("echo 'Operation not permitted (os error 1)'; exit 1", "1", "ptrace_scope is 1 there, so the rank must allow"),
        ("echo 'Permission Denied'; exit 1", "3", "ptrace_scope is 3, which only root changes"),
        ("echo 'Error: no python'; echo more; exit 1", "", "py-spy failed: Error: no python$"),
        ("sleep 1000", "", "py-spy was not done within 0.5 s, and was ended"),
    ],
)
async def test_each_lack_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, scope: str, why: str
) -> None:
    (tmp_path / "scope").write_text(f"{scope}\n")
    monkeypatch.setattr(beside, "YAMA_SCOPE", str(tmp_path / "scope"))
    write(tmp_path, script)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with pytest.raises(NoStack, match=why):
        await stack_of(7, environ, 0.5 if "sleep" in script else 20.0, (), native=True)


def write(folder: Path, script: str) -> None:
    """Put a program in the place of py-spy."""
    program = folder / "py-spy"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_only_processes_that_the_rank_has_started_are_below_it() -> None:
    child = subprocess.Popen(["sh", "-c", "sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        assert is_below(child.pid, os.getpid())
        assert is_below(grandchild, os.getpid())
        assert not is_below(os.getpid(), os.getpid())
        assert not is_below(os.getppid(), os.getpid())
        assert not is_below(2**22, os.getpid())
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
