"""Programs that import no agent: a stop that is named from outside, children that stop, and a rank that is killed."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import (
    ask,
    attach,
    attach_command,
    attach_list,
    start_ranks,
    texts,
    wait_until,
    wait_until_states,
    wait_until_stopped,
)
from tests.support.runs import ends_within
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

HERE = os.uname().nodename.partition(".")[0]

TRAIN = """\
import os

def train():
    total = 0
    for step in range(3):
        total += step
    return total

os.write(1, f"trained to {train()}\\n".encode())
"""

TOTAL = 6
"""The line that adds."""

WORKERS = """\
import multiprocessing, os, subprocess, sys

def work(number):
    value = number * 10
    __import__("pdb").set_trace()
    os.write(1, f"worked {value}\\n".encode())

if __name__ == "__main__":
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    children = [multiprocessing.get_context("spawn").Process(target=work, args=(number,)) for number in (1, 2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    os.write(1, f"ended {[child.exitcode for child in children]}\\n".encode())
"""


def environment(**more: str) -> dict[str, str]:
    """Return what ``run`` sets for a job that it starts in this process."""
    return {**os.environ, "DBG_AUTOSTART": str(os.getpid()), **more}


def at_prompt(terminal: Terminal, line: int) -> None:
    def asks(seen: Terminal) -> bool:
        rows = [row for row in seen.screen if row]
        return len(rows) > 1 and rows[-2] == "(Pdb)" and f":{line} " in rows[-1] and "  stopped  " in rows[-1]

    terminal.wait_for(asks)


def test_pdb_stops_before_the_line_and_a_step_onto_it_stops_once(
    processes: Processes, home: Path, tmp_path: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    program = tmp_path / "train.py"
    program.write_text(TRAIN)
    env = environment(DBG_STOP_AT=f"train.py:{TOTAL}", DBG_ENGINE="pdb")
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


def test_spawned_children_stop_at_breakpoint(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    program = tmp_path / "train.py"
    program.write_text(WORKERS)
    job = processes.start("train", [sys.executable, str(program)], env=environment())
    stopped = wait_until_stopped(home, 2)
    assert sorted(rank["address"] for rank in stopped) == [f"{HERE}:0.1", f"{HERE}:0.2"]
    assert {rank["where"]["function"] for rank in stopped} == {"work"}
    listed = attach_list(home, "--all")
    assert sorted(rank["address"] for rank in listed) == [f"{HERE}:0", f"{HERE}:0.1", f"{HERE}:0.2"]
    assert len({(rank["job"], rank["run"]) for rank in listed}) == 1
    assert sorted(texts(ask(home, "eval", "stopped", "value")).values()) == ["10", "20"]
    # A child that ends at once may be gone before it has reported that it went on.
    attach(home, "continue", "stopped")
    assert job.wait() == 0, job.tail()
    assert "ended [0, 0]" in job.text()
    assert job.text().count("worked") == 2


def test_a_killed_rank_is_listed_with_its_signal_and_leaves_no_guard(processes: Processes, home: Path) -> None:
    broker = running_broker(processes, home)
    (rank,) = start_ranks(processes, home, "import signal, dbg_agent\ndbg_agent.install()\nsignal.pause()\n", 1)
    wait_until_states(home, {0: "running"})
    rank.kill()
    (listed,) = wait_until(home, lambda ranks: ranks[0]["exit"] is not None, "its status", listing=("--all",))
    assert (listed["state"], listed["exit"], listed["detail"]) == ("exited", -signal.SIGKILL, "SIGKILL")
    for pid in processes.strays():
        assert pid == broker.process.pid or ends_within(pid, seconds(5))
