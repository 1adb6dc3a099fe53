"""What is made of py-spy's output, and of its absence; the real one is in test_exec."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dbg_agent.guard import reporting
from dbg_agent.guard.guard_commands import NoStack, files_at, find_program, frames_of
from dbg_agent.guard.rank_side import BEAT, MARK
from dbg_agent.guard.reporting import GuardReporter
from dbg_agent.host.watched import PAGE_BYTES, Memory, WatchedProcess
from dbg_agent.link.link import BrokerFinder
from dbg_dial.endpoint import Endpoint, Route
from dbg_wire.limits import MAX_STACK_BYTES
from dbg_wire.records.record import size_of
from tests.conftest import Approved
from tests.support.reach import PIN


def thread(number: int, *names: str, pid: int = 7, module: str | None = None) -> dict[str, object]:
    frames = [{"name": name, "filename": f"/src/{name}.py", "module": module, "line": 3} for name in names]
    return {"pid": pid, "os_thread_id": number, "frames": frames}


def test_the_main_thread_is_shown_outermost_frame_first_without_our_frames() -> None:
    text = json.dumps([thread(9, "pump"), thread(7, "inner", "outer")])
    assert [place.function for place in frames_of(text, 7, (), {})] == ["outer", "inner"]
    # In a container the guard may know the rank by another number than the kernel outside of it.
    assert [place.function for place in frames_of(text, 4711, (), {})] == ["outer", "inner"]
    assert frames_of(text, 7, ("/src",), {}) == ()


def test_an_unnamed_function_is_named_by_its_address_within_its_file() -> None:
    maps = "7f00-7f80 r--p 0 8:1 12   /lib/my lib.so\n7f80-8000 r-xp 80 8:1 12   /lib/my lib.so\n1-2 rw-p 0 0 0\n"
    text = json.dumps([thread(7, "0x7f8a", module="/lib/my lib.so")])
    assert [place.function for place in frames_of(text, 7, (), files_at(maps))] == ["0x8a"]


def test_inner_frames_with_long_names_are_kept_and_the_others_counted() -> None:
    names = [f"f{number}<{'int, ' * 700}>" for number in range(300)]
    frames = frames_of(json.dumps([thread(7, *names)]), 7, (), {})
    assert sum(map(size_of, frames)) < MAX_STACK_BYTES + 200
    assert frames[-1].function.startswith("f0<")
    assert str(300 - (len(frames) - 1)) in frames[0].function


@pytest.mark.parametrize("text", ["", "[]", "{}", "[1]", '[{"pid": 1}]', "Error: x\x1b[2J"])
def test_output_without_a_stack_is_reported(approved: Approved, text: str) -> None:
    with pytest.raises(NoStack) as error:
        frames_of(text, 7, (), {})
    approved(str(error.value))
    assert "\x1b" not in str(error.value)


def test_a_missing_py_spy_is_reported_with_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


GIB = 1 << 30


class FixedMemory(Memory):
    """A memory whose values the test sets."""

    def __init__(self, *, has_run_out: bool = False, limit: int | None = None) -> None:
        super().__init__(2**22)
        self.held = 7 * GIB
        self._values = has_run_out, limit

    def has_run_out(self) -> bool:
        return self._values[0]

    def limit(self) -> int | None:
        return self._values[1]


def cause(number: int, memory: Memory | None = None, slurm_end: str = "") -> tuple[str, str]:
    watched = WatchedProcess(os.getpid())
    watched.memory = memory or FixedMemory()
    os.close(watched.descriptor)
    return watched.cause_of_end(number, slurm_end)


def test_the_out_of_memory_killer_is_reported_with_limit_and_size(approved: Approved) -> None:
    received = cause(signal.SIGKILL, FixedMemory(has_run_out=True, limit=8 * GIB))
    approved("\n".join(received))
    approved(cause(signal.SIGKILL, FixedMemory(has_run_out=True))[0], "2")
    assert cause(signal.SIGTERM, FixedMemory(has_run_out=True)) == ("", "")
    assert cause(signal.SIGKILL) == ("", "")


@pytest.mark.parametrize(("late", "is_reported"), [(-10, False), (0, True), (170, True), (200, False)])
def test_slurms_time_limit_is_reported(monkeypatch: pytest.MonkeyPatch, late: int, is_reported: bool) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_800_000_000.0 + late)
    assert ("SLURM" in cause(signal.SIGKILL, slurm_end="1800000000")[0]) is is_reported
    assert cause(signal.SIGKILL, slurm_end="soon") == ("", "")


V2, V1 = "0::/job/step\n", "4:cpu:/\n7:memory,hugetlb:/job/step\n0::/\n"


def write_watched(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def process(root: Path, groups: str, pages: int = 100) -> Memory:
    write_watched(root / "proc/7/cgroup", groups)
    write_watched(root / "proc/7/statm", f"900 {pages} 0 0 0 0 0\n")
    return Memory(7, str(root / "cgroup"), str(root / "proc"))


def set_v2(root: Path, kills: int, where: str = "cgroup/job/step") -> None:
    write_watched(root / where / "memory.events", f"low 0\nhigh 0\nmax 9\noom 1\noom_kill {kills}\noom_group_kill 0\n")


@pytest.mark.parametrize("where", ["cgroup/job/step", "cgroup/unified/job/step", "cgroup"])
def test_a_kill_by_cgroup_version_2_is_seen(tmp_path: Path, where: str) -> None:
    set_v2(tmp_path, 3, where)
    memory = process(tmp_path, V2)
    assert (memory.held, memory.has_run_out()) == (100 * PAGE_BYTES, False)
    set_v2(tmp_path, 4, where)
    assert memory.has_run_out()


def test_the_tightest_limit_of_cgroup_version_2_counts(tmp_path: Path) -> None:
    set_v2(tmp_path, 0)
    memory = process(tmp_path, V2)
    assert memory.limit() is None
    write_watched(tmp_path / "cgroup/job/step/memory.max", "max\n")
    write_watched(tmp_path / "cgroup/job/memory.max", f"{8 * GIB}\n")
    assert memory.limit() == 8 * GIB


def test_cgroup_version_1_reports_the_same(tmp_path: Path) -> None:
    group = tmp_path / "cgroup/memory/job/step"
    write_watched(group / "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n")
    memory = process(tmp_path, V1)
    write_watched(group / "memory.limit_in_bytes", f"{2**63 - 4096}\n")
    assert (memory.has_run_out(), memory.limit()) == (False, None)
    write_watched(group / "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    write_watched(group / "memory.stat", f"cache 0\nhierarchical_memory_limit {GIB}\n")
    assert (memory.has_run_out(), memory.limit()) == (True, GIB)


def test_a_note_of_an_ending_process_does_not_hide_the_kill(tmp_path: Path) -> None:
    set_v2(tmp_path, 0)
    memory = process(tmp_path, V2)
    set_v2(tmp_path, 1)
    memory.note()
    assert memory.has_run_out()
    # A kill before the last two notes has not ended this process; one that has ended holds nothing.
    memory.note()
    write_watched(tmp_path / "proc/7/statm", "0 0 0 0 0 0 0\n")
    memory.note()
    assert (memory.has_run_out(), memory.held) == (False, 100 * PAGE_BYTES)


@pytest.mark.parametrize("groups", ["", "nonsense", "0::/nowhere\n", V1])
def test_no_kill_is_reported_without_a_count(tmp_path: Path, groups: str) -> None:
    memory = process(tmp_path, groups)
    assert (memory.has_run_out(), memory.limit()) == (False, None)


class Killed:
    """A process that a signal has ended."""

    pid = 2**22
    descriptor = -1
    memory = Memory(2**22)

    def is_alive(self) -> bool:
        return False

    def is_suspended(self) -> bool:
        return False

    def status(self) -> int:
        return 9

    def cause_of_end(self, number: int, slurm_end: str) -> tuple[str, str]:
        return "", ""


def dials_in_vain(monkeypatch: pytest.MonkeyPatch, reach: Route | None = None, received: bytes = b"") -> list[Route]:
    """Have a guard report the end of its rank to nobody; return how it dialled each time."""
    attempts: list[Route] = []

    async def find(_: BrokerFinder) -> Route | None:
        return reach

    async def dial(reach: Route, *_: object) -> None:
        attempts.append(reach)
        # A guard that goes on for ever must fail this test, and not keep it waiting.
        if len(attempts) > 500:
            raise SystemExit("the guard goes on")
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)
        raise OSError("no broker")

    # The guard's own process ends with its loop.
    loop = asyncio.SelectorEventLoop()
    monkeypatch.setattr(asyncio, "SelectorEventLoop", lambda: loop)
    read, write = os.pipe()
    for name, value in {
        "PIPE": read,
        "LAST_WORDS_SECONDS": 0.3,
        "LAST_RETRY_SECONDS": 0.0,
        "QUIET_SECONDS": 0.0,
        "dial": dial,
    }.items():
        monkeypatch.setattr(reporting, name, value)
    monkeypatch.setattr(BrokerFinder, "find", find)
    about: dict[str, Any] = {"key": "j/r/h:0/1", "main": 1, "broker": None, "environ": {}, "stuck": 6.0, "signal": 0}
    try:
        GuardReporter(about, Killed(), None).run(received)  # type: ignore[arg-type] # a process that has ended
    finally:
        loop.close()
        os.close(read)
        os.close(write)
    return attempts


def test_a_guard_ends_after_its_rank_even_if_its_cancellation_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 1 < len(dials_in_vain(monkeypatch)) <= 500


def test_a_guard_first_dials_the_broker_that_has_its_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (Endpoint(host=host, port=6900, fingerprint=PIN) for host in ("login1", "login2"))
    reach = Route(endpoint=first, token="t" * 43, sources={}, others=(second,))
    (route, *_) = dials_in_vain(monkeypatch, reach, f"{MARK}{BEAT} 17 j/r/h:0/1 {second}\n".encode())
    assert (route.endpoint, route.others) == (second, (first,))
