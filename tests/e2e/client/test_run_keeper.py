"""The terminal of a job's own: what the job finds, and what comes into the file."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dbg_client.run import keeper
from dbg_client.run.keeper import CantStart, JobTerminal, is_wanted, is_written
from dbg_dial.home import AUTOSTART
from tests.conftest import Approved
from tests.support.processes import Child, Processes
from tests.support.time_unit import seconds

RUN = """
import os, sys
from dbg_client.run import keeper

output = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
keeper.lock_output(output)
held = os.memfd_create("held")
terminal = keeper.JobTerminal() if sys.argv[2] == "terminal" else None
job = keeper.JobProcess()
try:
    job.start(sys.argv[3:], os.environ, output, terminal)
except keeper.CantStart as error:
    print(error)
    sys.exit(error.exit_status)
os.close(output)
print("started", job.keeper, job.process, os.getpid(), flush=True)
_, status, used = os.wait4(job.keeper, 0)
print("used", used.ru_utime + used.ru_stime, flush=True)
sys.exit(keeper.shell_status(os.waitstatus_to_exitcode(status)))
"""

Kept = Callable[..., Child]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "job.out"


@pytest.fixture
def kept(processes: Processes, output: Path) -> Kept:
    """Start a process that runs a command as its job and waits for it."""

    def start(*command: str, terminal: str = "none") -> Child:
        environ = {**os.environ, "OTHERS": "stay", AUTOSTART: "of another"}
        return processes.start("run", [sys.executable, "-c", RUN, str(output), terminal, *command], env=environ)

    return start


@pytest.fixture
def on_terminal(kept: Kept) -> Kept:
    """Do the same with a terminal of the job's own."""
    return partial(kept, terminal="terminal")


@pytest.mark.parametrize(
    ("typed", "command", "is_terminal", "wanted"),
    [
        (True, ["srun", "python"], True, True),
        (False, ["python"], True, False),
        (None, ["python", "train.py"], True, True),
        (None, ["torchrun", "--nproc_per_node", "2", "train.py"], True, True),
        (None, ["torchrun", "--nnodes", "2", "train.py"], True, False),
        (None, ["mpirun", "python", "train.py"], True, False),
        (None, ["python"], False, False),
        (True, ["python"], False, True),
    ],
)
def test_it_is_there_where_a_job_would_have_one_without_us(
    typed: bool | None, command: list[str], is_terminal: bool, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dbg_client.run.keeper.os.isatty", lambda _: is_terminal)
    assert is_wanted(typed, command) is wanted


def test_what_is_written_is_in_the_file_byte_for_byte(on_terminal: Kept, output: Path) -> None:
    text = r"[ -t 1 ] && [ -t 2 ] && [ ! -t 0 ] && printf 'one\n 5%%\r10%%\033[K\t\377\n'; printf 'err\n' >&2; exit 3"
    assert on_terminal("sh", "-c", text).wait() == 3
    assert output.read_bytes() == b"one\n 5%\r10%\x1b[K\t\xff\nerr\n"


def test_much_that_is_written_is_all_in_the_file(on_terminal: Kept, output: Path) -> None:
    assert on_terminal("sh", "-c", "seq 1 200000").wait() == 0
    lines = output.read_text().split()
    assert (len(lines), lines[-1]) == (200_000, "200000")


def test_it_is_as_large_as_ours_and_grows_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "_size_of_ours", lambda: (33, 111))
    terminal = JobTerminal()
    try:
        assert os.get_terminal_size(terminal.slave) == (111, 33)
        monkeypatch.setattr(keeper, "_size_of_ours", lambda: (40, 90))
        assert terminal.resize()
        assert os.get_terminal_size(terminal.slave) == (90, 40)
        assert not terminal.resize()
    finally:
        terminal.close()


def test_a_job_that_closes_its_output_goes_on(on_terminal: Kept, output: Path) -> None:
    run = on_terminal("sh", "-c", f"exec >/dev/null 2>&1; sleep 1; echo elsewhere > {output}.other; exit 4")
    assert run.wait() == 4
    # The keeper sleeps, too: a terminal that nobody has open is always ready to be read.
    assert float(run.wait_for_output(r"used ([0-9.]+)")[1]) < 0.1
    assert Path(f"{output}.other").read_text() == "elsewhere\n"


TELL = """
import json, os, signal
def files(process):
    folder = f"/proc/{process}/fd"
    numbers = [number for number in os.listdir(folder) if os.path.lexists(f"{folder}/{number}")]
    return {number: os.readlink(f"{folder}/{number}") for number in numbers}
print(json.dumps({
    "session": os.getsid(0), "group": os.getpgrp(), "pid": os.getpid(), "parent": os.getppid(),
    "parents_session": os.getsid(os.getppid()),
    "files": files("self"),
    "autostart": os.environ["DBG_AUTOSTART"], "others": os.environ.get("OTHERS"),
    "keepers": files(os.getppid()),
    "sigint": str(signal.getsignal(signal.SIGINT)),
}))
"""

# Without site-packages, because a job that finds the agent installed becomes a rank and opens files of its own.
TELLING = (sys.executable, "-S", "-c", TELL)


def numbers(run: Child) -> tuple[int, int, int]:
    """Return the process numbers of keeper, job and run."""
    found = run.wait_for_output(r"started (\d+) (\d+) (\d+)")
    return int(found[1]), int(found[2]), int(found[3])


def has_writer(output: Path) -> bool:
    descriptor = os.open(output, os.O_RDWR)
    with contextlib.closing(os.fdopen(descriptor)):
        return is_written(descriptor)


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
def test_the_job_ends_with_the_status_that_a_shell_would_tell(kept: Kept, command: list[str], status: int) -> None:
    assert kept(*command).wait() == status


def test_a_command_that_is_not_there_is_named(approved: Approved, kept: Kept) -> None:
    run = kept("no-such-command\x1b")
    assert run.wait() == 127
    approved(run.text())


@pytest.mark.parametrize("mode", [0o600, None])
def test_what_can_not_be_executed_is_named(kept: Kept, tmp_path: Path, mode: int | None) -> None:
    path = tmp_path / "train.py"
    if mode is None:
        path.mkdir()
    else:
        path.write_text("pass")
        path.chmod(mode)
    run = kept(str(path))
    assert run.wait() == 126
    assert "train.py' can't be started (Permission denied)" in run.text()


def test_a_keeper_that_fails_is_no_job(approved: Approved) -> None:
    approved(str(CantStart("python", 0)))
    assert CantStart("python", 0).exit_status == 126


def test_its_output_is_appended(kept: Kept, output: Path) -> None:
    output.write_text("before\n")
    assert kept("sh", "-c", "echo out; echo err >&2; echo out again").wait() == 0
    assert output.read_text() == "before\nout\nerr\nout again\n"


def test_the_job_is_in_a_session_of_its_own_as_any_program_and_the_keeper_holds_no_terminal(
    kept: Kept, output: Path
) -> None:
    run = kept(*TELLING)
    keeper, job, starter = numbers(run)
    assert run.wait() == 0

    document: dict[str, Any] = json.loads(output.read_text())
    assert (document["pid"], document["session"], document["group"]) == (job, job, job)
    assert (document["parent"], document["parents_session"]) == (keeper, keeper)
    assert len({keeper, job, starter}) == 3
    assert [document["files"][number] for number in "012"] == ["/dev/null", str(output), str(output)]
    assert set(document["files"].values()) == {"/dev/null", str(output)}
    # Ranks know who has started them, and the rest of the environment is as given.
    assert (document["autostart"], document["others"]) == (str(keeper), "stay")
    assert "default_int_handler" in document["sigint"]
    keepers = document["keepers"]
    assert {keepers[number] for number in "012"} == {"/dev/null"}
    assert {"/memfd:held (deleted)", str(output)} <= {*keepers.values()}


def test_sigpipe_is_to_the_job_what_it_is_to_any_program(kept: Kept, output: Path) -> None:
    # Python ignores SIGPIPE in its own process; a program that it starts must not inherit that.
    assert kept("sh", "-c", "grep SigIgn /proc/self/status").wait() == 0
    assert not int(output.read_text().split()[-1], 16) & 1 << (signal.SIGPIPE - 1)


def test_job_and_output_outlive_the_process_that_has_started_them(kept: Kept, output: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    run = kept("sh", "-c", f"read line < {gate}; echo $line")
    keeper, _, _ = numbers(run)
    keeper_ended = os.pidfd_open(keeper)
    run.kill()
    run.wait()
    assert has_writer(output)

    gate.write_text("still there\n")
    wait_for_end(keeper_ended)
    assert output.read_text() == "still there\n"
    assert not has_writer(output)


def test_an_output_is_written_as_long_as_anybody_of_the_job_has_it(kept: Kept, output: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    run = kept("sh", "-c", f"(read line < {gate}; echo $line) & ps -o pid= -p $! ; exit 5")
    assert run.wait() == 5
    assert has_writer(output)

    left_behind = os.pidfd_open(int(output.read_text()))
    gate.write_text("late\n")
    wait_for_end(left_behind)
    assert not has_writer(output)
