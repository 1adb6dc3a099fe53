"""What the kernel tells of this process and of its descriptors, and what is told where it tells nothing."""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from dbg_agent.evidence import descriptors, process
from dbg_agent.evidence.descriptors import lock_holders, looked_up, openers, other_ends
from dbg_agent.evidence.process import process_seen
from dbg_agent.launch import proc
from tests.conftest import Approved
from tests.support.time_unit import seconds


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a search take as long as it does beside the processes of other tests."""
    monkeypatch.setattr(descriptors, "MAX_SECONDS", seconds(60))


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


CGROUP, OLD_CGROUP = "/sys/fs/cgroup", "/sys/fs/cgroup/memory/slurm/job_1"
NEW_KERNEL = {
    "/proc/self/cgroup": "0::/job/step\n",
    f"{CGROUP}/job/step/memory.max": "max\n",
    f"{CGROUP}/job/step/memory.events": "low 0\noom 3\noom_kill 2\n",
    f"{CGROUP}/job/memory.max": "8589934592\n",
    f"{CGROUP}/memory.max": "max\n",
}
OLD_KERNEL = {
    "/proc/self/cgroup": "5:cpu:/\n4:memory:/slurm/job_1\n",
    f"{OLD_CGROUP}/memory.limit_in_bytes": "4294967296\n",
    f"{OLD_CGROUP}/memory.oom_control": "under_oom 0\noom_kill 1\n",
    f"{CGROUP}/memory/memory.limit_in_bytes": "9223372036854771712\n",
}
TRACED = {"/proc/self/status": "State:\tt (tracing stop)\nTracerPid:\t812\nVmRSS:\t  2048 kB\n"}
FOREIGN = {"/proc/self/status": "State:\nVmRSS: x kB\nTracerPid: -1\n", "/proc/self/cgroup": "::\nx\n4:memory:"}


@pytest.mark.parametrize(
    ("files", "state", "memory", "limit"),
    [
        ({}, "", None, None),
        (NEW_KERNEL, "", None, 2**33),
        (OLD_KERNEL, "", None, 2**32),
        (TRACED, "t", 2**21, None),
        (FOREIGN, "", None, None),
    ],
    ids=["no proc", "smallest limit of the groups", "older kernel", "traced", "foreign texts"],
)
def test_what_the_kernels_files_tell(
    approved: Approved,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, str],
    state: str,
    memory: int | None,
    limit: int | None,
) -> None:
    monkeypatch.setattr(proc, "read_proc", lambda path: files.get(path, ""))
    monkeypatch.setattr(process, "command_of", lambda pid: f"{pid} (`gdb -p 4711`)")
    seen = process_seen()
    assert (seen.state, seen.memory, seen.memory_limit, seen.input) == (state, memory, limit, None)
    assert seen.cpu is not None
    approved(seen.note)


def test_the_process_that_has_locked_a_file_is_found_and_none_that_has_it_open_alone(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as file, ExitStack() as others:
        assert (lock_holders(str(path)), openers(str(path))) == ([], [os.getpid()])
        fcntl.flock(file, fcntl.LOCK_EX)
        # The kernel gives a page of its list at a time, the newest locks first.
        for number in range(200):
            fcntl.flock(others.enter_context((tmp_path / str(number)).open("w")), fcntl.LOCK_EX)
        assert lock_holders(str(path)) == [os.getpid()]
    assert (lock_holders(str(path)), openers(str(path))) == ([], [])


def test_a_path_is_resolved_unless_its_file_system_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    path = str(tmp_path / "link" / "lock")
    assert looked_up(path).path == str(tmp_path / "data" / "lock")

    answers, asked = threading.Event(), []

    def hangs(path: str) -> str:
        asked.append(path)
        answers.wait()
        return "/elsewhere"

    monkeypatch.setattr(descriptors, "MAX_SECONDS", 0.01)
    monkeypatch.setattr(os.path, "realpath", hangs)
    assert [looked_up(path).path, looked_up("/other").path] == [path, "/other"]
    assert asked == [path]
    answers.set()


def test_the_other_end_of_a_pipe_is_the_one_of_the_other_direction() -> None:
    reading, writing = os.pipe()
    pipe = os.readlink(f"/proc/self/fd/{reading}")  # noqa: PTH115 - a link that names no path
    assert other_ends(pipe, reads=True) == other_ends(pipe, reads=False) == [os.getpid()]
    os.close(writing)
    assert (other_ends(pipe, reads=True), other_ends(pipe, reads=False)) == ([], [os.getpid()])
    os.close(reading)
