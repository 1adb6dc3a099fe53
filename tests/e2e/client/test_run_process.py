"""The process of a job: its environment, its output file, and its exit status."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dbg_client.run.folder import is_written
from dbg_dial.home import AUTOSTART
from tests.conftest import Approved
from tests.support.processes import Child, Processes
from tests.support.time_unit import seconds

RUN = """
import fcntl, os, sys
from dbg_client.run.job_process import CantStart, JobProcess

output = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
fcntl.flock(output, fcntl.LOCK_SH)
job = JobProcess()
try:
    job.start(sys.argv[2:], os.environ, output)
except CantStart as error:
    print(error)
    sys.exit(error.exit_status)
os.close(output)
print("started", os.getpid(), flush=True)
sys.exit(job.wait())
"""

Kept = Callable[..., Child]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "job.out"


@pytest.fixture
def kept(processes: Processes, output: Path) -> Kept:
    """Start a process that runs a command as its job and waits for it."""

    def start(*command: str) -> Child:
        environ = {**os.environ, "OTHERS": "stay", AUTOSTART: "of another"}
        return processes.start("run", [sys.executable, "-c", RUN, str(output), *command], env=environ)

    return start


STATE = """
import json, os, signal
def files(process):
    folder = f"/proc/{process}/fd"
    numbers = [number for number in os.listdir(folder) if os.path.lexists(f"{folder}/{number}")]
    return {number: os.readlink(f"{folder}/{number}") for number in numbers}
print(json.dumps({
    "session": os.getsid(0), "group": os.getpgrp(), "pid": os.getpid(), "parent": os.getppid(),
    "files": files("self"),
    "autostart": os.environ["DBG_AUTOSTART"], "others": os.environ.get("OTHERS"),
    "sigint": str(signal.getsignal(signal.SIGINT)),
}))
"""

# Without site-packages, because a job that finds the agent installed becomes a rank and opens files of its own.
PRINTS_STATE = (sys.executable, "-S", "-c", STATE)


def wait_for_end(handle: int) -> None:
    assert select.select([handle], [], [], seconds(20))[0]
    os.close(handle)


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["true"], 0),
        (["sh", "-c", "exit 3"], 3),
        (["sh", "-c", "kill -KILL $$"], 128 + signal.SIGKILL),
        (["sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM),
    ],
)
def test_the_job_ends_with_the_status_that_a_shell_would_return(kept: Kept, command: list[str], status: int) -> None:
    assert kept(*command).wait() == status


def test_a_missing_command_is_named(approved: Approved, kept: Kept) -> None:
    run = kept("no-such-command\x1b")
    assert run.wait() == 127
    approved(run.text())


@pytest.mark.parametrize("mode", [0o600, None])
def test_a_file_that_cannot_be_executed_is_named(kept: Kept, tmp_path: Path, mode: int | None) -> None:
    path = tmp_path / "train.py"
    if mode is None:
        path.mkdir()
    else:
        path.write_text("pass")
        path.chmod(mode)
    run = kept(str(path))
    assert run.wait() == 126
    assert "train.py' can't be started (Permission denied)" in run.text()


def test_output_of_the_job_is_appended(kept: Kept, output: Path) -> None:
    output.write_text("before\n")
    assert kept("sh", "-c", "echo out; echo err >&2; echo out again").wait() == 0
    assert output.read_text() == "before\nout\nerr\nout again\n"


def test_the_job_has_its_own_session_and_the_usual_environment(kept: Kept, output: Path) -> None:
    run = kept(*PRINTS_STATE)
    starter = int(run.wait_for_output(r"started (\d+)")[1])
    assert run.wait() == 0

    document: dict[str, Any] = json.loads(output.read_text())
    assert document["pid"] == document["session"] == document["group"]
    assert [document["files"][number] for number in "012"] == ["/dev/null", str(output), str(output)]
    assert set(document["files"].values()) == {"/dev/null", str(output)}
    # Ranks know who has started them, and the rest of the environment is as given.
    assert (document["parent"], document["autostart"], document["others"]) == (starter, str(starter), "stay")
    assert "default_int_handler" in document["sigint"]


def test_the_job_does_not_ignore_sigpipe(kept: Kept, output: Path) -> None:
    # Python ignores SIGPIPE in its own process; a program that it starts must not inherit that.
    assert kept("sh", "-c", "grep SigIgn /proc/self/status").wait() == 0
    assert not int(output.read_text().split()[-1], 16) & 1 << (signal.SIGPIPE - 1)


def test_job_and_output_outlive_the_process_that_started_them(kept: Kept, output: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    run = kept("sh", "-c", f"echo $$; read line < {gate}; echo $line")
    run.wait_for_output("started")
    run.kill()
    run.wait()
    assert is_written(output)

    with gate.open("w") as opened:
        ended = os.pidfd_open(int(output.read_text()))
        opened.write("still there\n")
    wait_for_end(ended)
    assert output.read_text().endswith("\nstill there\n")
    assert not is_written(output)


def test_output_counts_as_written_while_a_job_process_has_it_open(kept: Kept, output: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    run = kept("sh", "-c", f"(read line < {gate}; echo $line) & ps -o pid= -p $! ; exit 5")
    assert run.wait() == 5
    assert is_written(output)

    left_behind = os.pidfd_open(int(output.read_text()))
    gate.write_text("late\n")
    wait_for_end(left_behind)
    assert not is_written(output)
