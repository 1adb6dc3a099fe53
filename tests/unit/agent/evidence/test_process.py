"""What the kernel tells of this process, and what is told where it tells nothing."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from dbg_agent.evidence import process
from dbg_agent.evidence.process import process_seen
from dbg_agent.launch import proc
from tests.conftest import Approved


def test_this_process_is_told_with_amounts_that_grow() -> None:
    before = process_seen()
    sum(range(300_000))
    after = process_seen()
    assert before.state == "R"
    assert before.memory is not None
    assert before.memory > 2**20
    for name in ("cpu", "main_cpu", "input"):
        assert getattr(before, name) < getattr(after, name)
    assert after.output is not None


def files(monkeypatch: pytest.MonkeyPatch, texts: Mapping[str, str]) -> None:
    monkeypatch.setattr(proc, "read_proc", lambda path: texts.get(path, ""))


def test_without_proc_nothing_is_told_but_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    files(monkeypatch, {})
    seen = process_seen()
    assert (seen.state, seen.input, seen.memory, seen.memory_limit, seen.note) == ("", None, None, None, "")
    assert seen.cpu is not None


def test_the_smallest_limit_of_the_groups_counts(approved: Approved, monkeypatch: pytest.MonkeyPatch) -> None:
    top = "/sys/fs/cgroup"
    files(
        monkeypatch,
        {
            "/proc/self/cgroup": "0::/job/step\n",
            f"{top}/job/step/memory.max": "max\n",
            f"{top}/job/step/memory.events": "low 0\noom 3\noom_kill 2\n",
            f"{top}/job/memory.max": "8589934592\n",
            f"{top}/memory.max": "max\n",
        },
    )
    seen = process_seen()
    assert seen.memory_limit == 2**33
    approved(seen.note)


def test_the_limit_of_an_older_kernel_is_read(approved: Approved, monkeypatch: pytest.MonkeyPatch) -> None:
    group = "/sys/fs/cgroup/memory/slurm/job_1"
    files(
        monkeypatch,
        {
            "/proc/self/cgroup": "5:cpu:/\n4:memory:/slurm/job_1\n",
            f"{group}/memory.limit_in_bytes": "4294967296\n",
            f"{group}/memory.oom_control": "under_oom 0\noom_kill 1\n",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    seen = process_seen()
    assert seen.memory_limit == 2**32
    approved(seen.note)


def test_a_tracer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    files(monkeypatch, {"/proc/self/status": "State:\tt (tracing stop)\nTracerPid:\t812\nVmRSS:\t  2048 kB\n"})
    monkeypatch.setattr(process, "command_of", lambda pid: f"{pid} (`gdb -p 4711`)")
    seen = process_seen()
    assert (seen.state, seen.memory) == ("t", 2**21)
    assert seen.note == "the process 812 (`gdb -p 4711`) traces it"


def test_foreign_texts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    files(
        monkeypatch,
        {"/proc/self/status": "State:\nVmRSS: x kB\nTracerPid: -1\n", "/proc/self/cgroup": "::\nx\n4:memory:"},
    )
    assert process_seen().memory is None
    assert threading.current_thread() is threading.main_thread()
