"""Who is a rank: scripts of a launcher without a change of code, and children of every start method."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker import running_broker
from tests.support.launchers import mpirun
from tests.support.processes import Child, Processes
from tests.support.ranks import ask, attach, attach_list, wait_until, wait_until_stopped
from tests.support.requirements import needs_mpirun

HERE = os.uname().nodename.partition(".")[0]

PROGRAM = """\
#!{python}
import os, subprocess, sys

def call_programs():
    for command in (["-c", "pass"], ["-m", "pip", "--version"], [__file__, "child"]):
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)

def train():
    total = 0
    for step in range(3):
        total += step
    return total

if __name__ == "__main__" and sys.argv[1:] != ["child"]:
    call_programs()
    os.write(1, f"trained to {{train()}}\\n".encode())
"""

TOTAL = PROGRAM.splitlines().index("        total += step") + 1
"""The line that adds."""


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


ONCE = f"{TOTAL}, step == 1"


@needs_mpirun
def test_a_script_under_mpirun_stops_in_each_rank(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    program = write_program(tmp_path, "train.py")
    job = processes.start("mpirun", mpirun(2, sys.executable, str(program)), env=environment(f"train.py:{ONCE}"))
    check_ranks(home, [f"{HERE}:0", f"{HERE}:1"], program)
    let_end(home, job, 2)


WORKERS = """\
import multiprocessing, os, subprocess, sys

def work(number):
    value = number * 10
    breakpoint()
    os.write(1, f"worked {value}\\n".encode())

if __name__ == "__main__":
    for command in (["-c", "pass"], [__file__.replace("train", "quiet")]):
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
    context = multiprocessing.get_context(sys.argv[1])
    children = [context.Process(target=work, args=(number,)) for number in (1, 2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    os.write(1, f"ended {[child.exitcode for child in children]}\\n".encode())
"""

LINE = WORKERS.splitlines().index("    breakpoint()") + 1


def write(folder: Path, text: str) -> Path:
    """Write the program, and beside it one that prints nothing and is no rank."""
    (folder / "quiet.py").write_text("pass\n")
    path = folder / "train.py"
    path.write_text(text)
    return path


def as_by_run(**more: str) -> dict[str, str]:
    """Return what ``run`` sets for a job that it starts in this process."""
    return {**os.environ, "DBG_AUTOSTART": str(os.getpid()), **more}


def check_children(home: Path, job: Child, timeout: float | None = None) -> list[dict[str, Any]]:
    """Wait until two children are stopped; let them go on, and wait for the end of the job."""
    stopped = wait_until_stopped(home, 2, timeout)
    assert sorted(rank["address"] for rank in stopped) == [f"{HERE}:0.1", f"{HERE}:0.2"]
    assert {(rank["where"]["function"], rank["where"]["line"]) for rank in stopped} == {("work", LINE)}
    listed = attach_list(home, "--all")
    assert sorted(rank["address"] for rank in listed) == [f"{HERE}:0", f"{HERE}:0.1", f"{HERE}:0.2"]
    assert len({(rank["job"], rank["run"]) for rank in listed}) == 1
    result = attach(home, "eval", "stopped", "value")
    assert "10" in result.stdout
    assert "20" in result.stdout
    # A child that ends at once may be gone before it has reported that it went on.
    attach(home, "continue", "stopped")
    assert job.wait(timeout) == 0, job.tail()
    assert "ended [0, 0]" in job.text()
    assert job.text().count("worked") == 2
    return listed


@pytest.mark.parametrize(
    ("start", "method", "stop"),
    [("run", "fork", "breakpoint()"), ("dbg_agent", "forkserver", "os.close(0), __import__('pdb').set_trace()")],
)
def test_children_of_every_start_method_stop(
    processes: Processes, home: Path, tmp_path: Path, start: str, method: str, stop: str
) -> None:
    running_broker(processes, home)
    program = write(tmp_path, WORKERS.replace("breakpoint()", stop))
    command = [sys.executable, *(["-m", "dbg_agent"] if start == "dbg_agent" else []), str(program), method]
    env = as_by_run() if start == "run" else dict(os.environ)
    job = processes.start("train", command, env={**env, "PYTHONWARNINGS": "ignore"})
    check_children(home, job)


EXECUTOR = """\
import multiprocessing, os, signal, socket, sys

def receive(end):
    return end.recv(1) if isinstance(end, socket.socket) else end.recv()

def work(end, number):
    while (request := receive(end)) != b"2":
        if number == 1 and request == b"1":
            os.kill(os.getpid(), signal.SIGKILL) if sys.argv[2] == "dies" else breakpoint()
        end.send(request)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    pairs = [context.Pipe() if sys.argv[2] == "dies" else socket.socketpair() for _ in range(2)]
    for number, (_, end) in enumerate(pairs):
        context.Process(target=work, args=(end, number), name=f"VllmWorker-{number}", daemon=True).start()
    for request in (b"0", b"1", b"2"):
        for end, _ in pairs:
            end.send(request)
        for end, _ in pairs if request != b"2" else ():
            receive(end)
"""


@pytest.mark.parametrize(("method", "what"), [("spawn", "stops"), ("fork", "dies")])
def test_workers_of_an_executor_are_listed_and_why_names_the_awaited_one(
    processes: Processes, home: Path, tmp_path: Path, method: str, what: str
) -> None:
    running_broker(processes, home)
    command = [sys.executable, str(write(tmp_path, EXECUTOR)), method, what]
    job = processes.start("train", command, env={**as_by_run(), "PYTHONWARNINGS": "ignore"})
    state = {"stops": "stopped", "dies": "exited"}[what]

    def has_come_so_far(ranks: list[dict[str, Any]]) -> bool:
        return {(rank["child"] is None, rank["name"]) for rank in ranks if rank["state"] in ("running", state)} == {
            *((True, ""), (False, "VllmWorker-0"), (False, "VllmWorker-1")),
        } and any(rank["state"] == state for rank in ranks)

    listed = wait_until(home, has_come_so_far, f"a worker that {what}", listing=("--all",))
    (worker,) = [rank["pid"] for rank in listed if rank["name"] == "VllmWorker-1"]
    (verdict,) = ask(home, "why")["verdicts"]
    assert (verdict["kind"], verdict["ranks"]) == ("waiting", "0")
    for word in ("VllmWorker-1", str(worker), *(["SIGKILL"] if what == "dies" else ["debugger"])):
        assert word in verdict["sentence"]
    if what == "stops":
        attach(home, "continue", "stopped")
        assert job.wait() == 0, job.tail()
