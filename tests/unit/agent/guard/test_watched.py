"""A process's memory and its control group, read from files in the kernel's shapes, and from the kernel itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dbg_agent.guard.watched import PAGE_BYTES, Memory

GIB = 1 << 30
V2, V1 = "0::/job/step\n", "4:cpu:/\n7:memory,hugetlb:/job/step\n0::/\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def process(root: Path, groups: str, pages: int = 100) -> Memory:
    write(root / "proc/7/cgroup", groups)
    write(root / "proc/7/statm", f"900 {pages} 0 0 0 0 0\n")
    return Memory(7, str(root / "cgroup"), str(root / "proc"))


def set_v2(root: Path, kills: int, where: str = "cgroup/job/step") -> None:
    write(root / where / "memory.events", f"low 0\nhigh 0\nmax 9\noom 1\noom_kill {kills}\noom_group_kill 0\n")


@pytest.mark.parametrize("where", ["cgroup/job/step", "cgroup/unified/job/step", "cgroup"])
def test_a_kill_of_version_2_is_seen(tmp_path: Path, where: str) -> None:
    set_v2(tmp_path, 3, where)
    memory = process(tmp_path, V2)
    assert (memory.held, memory.has_run_out()) == (100 * PAGE_BYTES, False)
    set_v2(tmp_path, 4, where)
    assert memory.has_run_out()


def test_the_tightest_limit_of_version_2_counts(tmp_path: Path) -> None:
    set_v2(tmp_path, 0)
    memory = process(tmp_path, V2)
    assert memory.limit() is None
    write(tmp_path / "cgroup/job/step/memory.max", "max\n")
    write(tmp_path / "cgroup/job/memory.max", f"{8 * GIB}\n")
    assert memory.limit() == 8 * GIB


def test_version_1_tells_the_same(tmp_path: Path) -> None:
    group = tmp_path / "cgroup/memory/job/step"
    write(group / "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n")
    memory = process(tmp_path, V1)
    write(group / "memory.limit_in_bytes", f"{2**63 - 4096}\n")
    assert (memory.has_run_out(), memory.limit()) == (False, None)
    write(group / "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    write(group / "memory.stat", f"cache 0\nhierarchical_memory_limit {GIB}\n")
    assert (memory.has_run_out(), memory.limit()) == (True, GIB)


def test_a_note_of_a_process_that_is_being_ended_does_not_hide_the_kill(tmp_path: Path) -> None:
    set_v2(tmp_path, 0)
    memory = process(tmp_path, V2)
    set_v2(tmp_path, 1)
    memory.note()
    assert memory.has_run_out()
    # A kill before the last two notes has not ended this process; one that has ended holds nothing.
    memory.note()
    write(tmp_path / "proc/7/statm", "0 0 0 0 0 0 0\n")
    memory.note()
    assert (memory.has_run_out(), memory.held) == (False, 100 * PAGE_BYTES)


@pytest.mark.parametrize("groups", ["", "nonsense", "0::/nowhere\n", V1])
def test_without_a_count_nothing_is_claimed(tmp_path: Path, groups: str) -> None:
    memory = process(tmp_path, groups)
    assert (memory.has_run_out(), memory.limit()) == (False, None)


def test_the_kernel_tells_of_this_process() -> None:
    memory = Memory(os.getpid())
    assert memory.held > 1 << 20
    assert not memory.has_run_out()
    assert not Memory(2**22).held
