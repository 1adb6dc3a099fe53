"""Autostart under real launchers: only ranks take part, without a change of code; stops are named from outside."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.launchers import mpirun, torchrun
from tests.support.processes import Child, Processes
from tests.support.ranks import attach, attach_command, attach_list, wait_until_stopped
from tests.support.requirements import needs_mpirun, needs_torch
from tests.support.sessions import detach, open_pudb
from tests.support.slurm import Slurm
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

HERE = os.uname().nodename.partition(".")[0]

TORCH_SECONDS = 120.0
"""Seconds for launcher and ranks to import torch: 10 on two idle cores, several times that beside other tests."""

PROGRAM = """\
#!{python}
import multiprocessing, os, subprocess, sys

def children():
    for command in (["-c", "pass"], ["-m", "pip", "--version"], [__file__, "child"]):
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
    for method in ("fork", "spawn"):
        child = multiprocessing.get_context(method).Process(target=print)
        child.start()
        child.join()

def train():
    total = 0
    for step in range(3):
        total += step
    return total

if __name__ == "__main__" and sys.argv[1:] != ["child"]:
    children()
    os.write(1, f"trained to {{train()}}\\n".encode())
"""

TOTAL = 15
"""The line that adds."""

JOB_SCRIPT = """\
{python} -m pip --version >/dev/null
{python} -c 'import json'
exec "$@"
"""


def write_program(folder: Path, name: str) -> Path:
    """Write a program that does not import the agent."""
    path = folder / name
    path.write_text(PROGRAM.format(python=sys.executable))
    path.chmod(0o755)
    return path


def environment(stop_at: str, environ: Mapping[str, str] | None = None, **more: str) -> dict[str, str]:
    """Return what ``run`` sets for a job that it starts in this process."""
    base = dict(os.environ if environ is None else environ)
    return base | {"DBG_AUTOSTART": str(os.getpid()), "DBG_STOP_AT": stop_at, **more}


def check_ranks(home: Path, addresses: list[str], script: Path, timeout: float | None = None) -> None:
    """Wait until these ranks are stopped at their line; fail if another process has ever registered."""
    stopped = wait_until_stopped(home, len(addresses), timeout)
    assert [rank["address"] for rank in stopped] == addresses
    assert sorted(rank["address"] for rank in attach_list(home, "--all")) == addresses
    where = {"file": str(script), "line": TOTAL, "function": "train"}
    assert [rank["where"] for rank in stopped] == [where] * len(addresses)
    assert len({(rank["job"], rank["run"]) for rank in stopped}) == 1


def let_end(home: Path, job: Child, ranks: int, timeout: float | None = None) -> None:
    """Let all ranks go on, and wait for the end of the job."""
    result = attach(home, "continue", "all")
    assert result.returncode == 0, result.stderr
    assert job.wait(timeout) == 0, job.tail()
    assert job.text().count("trained to 3") == ranks
    assert "was never reached" not in job.text("stderr")


def test_a_stop_that_was_asked_for_waits_for_a_broker_that_is_suspended(
    processes: Processes, home: Path, tmp_path: Path
) -> None:
    broker = running_broker(processes, home)
    program = write_program(tmp_path, "train.py")
    variables: dict[str, Any] = {"RANK": "0", "WORLD_SIZE": "1", "DBG_HOME": str(home), "DBG_CONNECT_TIMEOUT": "0.5"}
    broker.process.signal(signal.SIGSTOP)
    try:
        job = processes.start(
            "job", [sys.executable, str(program)], env=environment(f"{program}:{TOTAL}, step == 1", **variables)
        )
        job.wait_for_output("this stop waits as long as the broker's process lives", stream="stderr")
    finally:
        broker.process.signal(signal.SIGCONT)
    (stopped,) = wait_until_stopped(home, 1)
    assert stopped["where"]["line"] == TOTAL
    let_end(home, job, 1)
    assert "passed without stopping" not in job.text("stderr")


ONCE = f"{TOTAL}, step == 1"


@needs_mpirun
def test_a_console_script_under_mpirun(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    program = write_program(tmp_path, "recipe")
    (tmp_path / "job.sh").write_text(JOB_SCRIPT.format(python=sys.executable))
    command = mpirun(2, "sh", str(tmp_path / "job.sh"), str(program), "lm")
    job = processes.start("mpirun", command, env=environment(""))
    assert job.wait() == 0
    assert sorted(rank["address"] for rank in attach_list(home, "--all")) == [f"{HERE}:0", f"{HERE}:1"]


@needs_mpirun
def test_a_script_under_mpirun(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    program = write_program(tmp_path, "train.py")
    job = processes.start("mpirun", mpirun(2, sys.executable, str(program)), env=environment(f"train.py:{ONCE}"))
    check_ranks(home, [f"{HERE}:0", f"{HERE}:1"], program)
    let_end(home, job, 2)


def test_a_script_under_srun(slurm: Slurm, processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    program = write_program(tmp_path, "train.py")
    (tmp_path / "job.sh").write_text(JOB_SCRIPT.format(python=sys.executable))
    command = ["srun", "-N2", "-n2", "sh", str(tmp_path / "job.sh"), sys.executable, str(program)]
    env = environment(f"train.py:{ONCE}", slurm.environment())
    job = processes.start("srun", command, env=env)
    check_ranks(home, ["node1:0", "node2:1"], program)
    let_end(home, job, 2)


@needs_torch
@pytest.mark.timeout(seconds(2 * TORCH_SECONDS))
def test_a_script_under_torchrun_in_a_step_of_srun(
    slurm: Slurm, processes: Processes, home: Path, tmp_path: Path
) -> None:
    running_broker(processes, home)
    program = write_program(tmp_path, "train.py")
    command = ["srun", "-N1", "-n1", *torchrun(2, str(program))]
    env = environment(f"train.py:{ONCE}", slurm.environment())
    job = processes.start("srun", command, env=env)
    check_ranks(home, ["node1:0", "node1:1"], program, seconds(TORCH_SECONDS))
    let_end(home, job, 2, seconds(TORCH_SECONDS))


def test_chosen_ranks_stop_and_the_others_wait(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    program = write_program(tmp_path, "train.py")
    ranks = []
    for rank in ("0", "1"):
        numbers = {"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "20000"}
        env = environment(f"train.py:{ONCE}") | numbers | {"DBG_RANKS": "1"}
        ranks.append(processes.start(f"rank{rank}", [sys.executable, str(program)], env=env))
    wait_until_stopped(home, 1)
    assert [rank["address"] for rank in wait_until_stopped(home, 1)] == [f"{HERE}:1"]
    let_end(home, ranks[1], 1)
    assert ranks[0].wait() == 0


def at_prompt(terminal: Terminal, line: int) -> None:
    """Wait until pdb shows its prompt before this line of the program."""

    def asks(seen: Terminal) -> bool:
        rows = [row for row in seen.screen if row]
        return len(rows) > 1 and rows[-2] == "(Pdb)" and f":{line} " in rows[-1] and "  stopped  " in rows[-1]

    terminal.wait_for(asks)


def test_pdb_is_before_the_line_and_a_step_onto_it_stops_once(
    processes: Processes, home: Path, tmp_path: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    program = write_program(tmp_path, "train.py")
    env = environment(f"train.py:{TOTAL}", DBG_ENGINE="pdb")
    job = processes.start("train", [sys.executable, str(program)], env=env)
    wait_until_stopped(home, 1)
    terminal = open_terminal(attach_command("0"), rows=30, cols=140)
    at_prompt(terminal, TOTAL)
    for command, line in (("n", TOTAL - 1), ("n", TOTAL), ("n", TOTAL - 1), ("c", TOTAL)):
        terminal.send(f"{command}\r")
        at_prompt(terminal, line)
    terminal.send("p 'at', step, total\r")
    terminal.wait_for("('at', 2, 1)")
    terminal.send("c\r")
    assert terminal.exit_status() == 7, terminal.dump()
    assert job.wait() == 0
    assert "trained to 3" in job.text()


def test_pudb_is_before_the_line_with_the_programs_own_frames(
    processes: Processes, home: Path, tmp_path: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    program = write_program(tmp_path, "train.py")
    job = processes.start("train", [sys.executable, str(program)], env=environment(f"train.py:{ONCE}"))
    check_ranks(home, [f"{HERE}:0"], program)
    terminal = open_pudb(open_terminal, "0", f"{HERE}:0")
    terminal.wait_for("step: 1")
    terminal.wait_for("total: 0")
    terminal.send("n")
    terminal.wait_for("total: 1")
    detach(terminal)
    let_end(home, job, 1)
