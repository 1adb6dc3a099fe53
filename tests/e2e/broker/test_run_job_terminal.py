"""The terminal of a job's own: what the job finds, and what comes into the file."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dbg_broker.run import keeper
from dbg_broker.run.keeper import JobTerminal, is_wanted
from tests.support.processes import Child, Processes
from tests.support.time_unit import seconds

RUN = """
import os, sys
from dbg_broker.run import keeper
from dbg_broker.run.keeper import JobTerminal

output = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
terminal = JobTerminal()
job = keeper.start(sys.argv[2:], os.environ, output, terminal)
os.close(output)
terminal.close()
print("started", job.keeper, flush=True)
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
    """Start a process that runs a command on a terminal of its own and waits for it."""

    def start(*command: str) -> Child:
        return processes.start("run", [sys.executable, "-c", RUN, str(output), *command])

    return start


@pytest.mark.parametrize(
    ("typed", "command", "wanted"),
    [
        (True, ["srun", "python"], True),
        (False, ["python"], False),
        (None, ["python", "train.py"], True),
        (None, ["torchrun", "--nproc_per_node", "2", "train.py"], True),
        (None, ["torchrun", "--nnodes", "2", "train.py"], False),
        (None, ["mpirun", "python", "train.py"], False),
    ],
)
def test_it_is_there_where_a_job_would_have_one_without_us(
    typed: bool | None, command: list[str], wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dbg_broker.run.keeper.os.isatty", lambda _: True)
    assert is_wanted(typed, command) is wanted


def test_it_is_not_there_where_the_output_goes_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbg_broker.run.keeper.os.isatty", lambda _: False)
    assert not is_wanted(None, ["python"])
    assert is_wanted(True, ["python"])


def test_what_is_written_is_in_the_file_byte_for_byte(kept: Kept, output: Path) -> None:
    text = r"[ -t 1 ] && [ -t 2 ] && [ ! -t 0 ] && printf 'one\n 5%%\r10%%\033[K\t\377\n'; printf 'err\n' >&2; exit 3"
    assert kept("sh", "-c", text).wait() == 3
    assert output.read_bytes() == b"one\n 5%\r10%\x1b[K\t\xff\nerr\n"


def test_much_that_is_written_is_all_in_the_file(kept: Kept, output: Path) -> None:
    assert kept("sh", "-c", "seq 1 200000").wait() == 0
    lines = output.read_text().split()
    assert (len(lines), lines[-1]) == (200_000, "200000")


def test_it_is_as_large_as_ours_and_grows_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "_size_of_ours", lambda: (33, 111))
    terminal = JobTerminal()
    try:
        assert os.get_terminal_size(terminal.slave) == (111, 33)
        monkeypatch.setattr(keeper, "_size_of_ours", lambda: (40, 90))
        terminal.resize()
        assert os.get_terminal_size(terminal.slave) == (90, 40)
    finally:
        terminal.close()


def test_a_terminal_that_is_gone_is_not_resized() -> None:
    terminal = JobTerminal()
    terminal.close()
    terminal.resize()


def test_what_the_job_leaves_behind_can_still_write(kept: Kept, output: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    run = kept("sh", "-c", f"(read line < {gate}; echo $line) & echo $!; exit 5")
    assert run.wait() == 5

    left_behind = os.pidfd_open(int(output.read_text()))
    gate.write_text("late\n")
    assert select.select([left_behind], [], [], seconds(20))[0]
    os.close(left_behind)
    assert _comes(output, "late\n")


def test_a_job_that_closes_its_output_goes_on(kept: Kept, output: Path) -> None:
    run = kept("sh", "-c", f"exec >/dev/null 2>&1; sleep 1; echo elsewhere > {output}.other; exit 4")
    assert run.wait() == 4
    # The keeper sleeps, too: a terminal that nobody has open is always ready to be read.
    assert float(run.wait_for_output(r"used ([0-9.]+)")[1]) < 0.1
    assert Path(f"{output}.other").read_text() == "elsewhere\n"


def _comes(output: Path, end: str) -> bool:
    """Wait until the file ends so: the one who copies it is nobody's child."""
    from dbg_dial.files import watch_growth

    watch = watch_growth(str(output))
    assert watch is not None
    try:
        while not output.read_text().endswith(end):
            if not select.select([watch], [], [], seconds(20))[0]:
                return False
            os.read(watch, 4096)
        return True
    finally:
        os.close(watch)
