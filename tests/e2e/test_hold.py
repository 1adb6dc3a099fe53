"""Chosen ranks stop, and the other ranks wait for them outside of collectives, as long as the stops last."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.launchers import mpirun
from tests.support.processes import Processes
from tests.support.ranks import ask, attach, attach_command, start_ranks, texts, wait_until, wait_until_states
from tests.support.requirements import needs_mpirun
from tests.support.slurm import Slurm
from tests.support.time_unit import seconds

ONCE = """\
import os
from dbg_agent import set_trace
set_trace(ranks=0)
print("went on")
"""

TWICE = """\
import os
from dbg_agent import set_trace
rank = int(os.environ["RANK"])
for turn in range(2):
    set_trace(ranks=[0, 1])
    print("passed", turn, flush=True)
"""


def test_the_others_are_held_while_the_chosen_one_is_stopped(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, ONCE, 3)
    listed = wait_until_states(home, {0: "stopped", 1: "held", 2: "held"})
    assert {rank["rank"]: rank["reason"] for rank in listed} == {0: "breakpoint", 1: None, 2: None}
    assert {rank["where"]["line"] for rank in listed} == {3}
    assert texts(ask(home, "eval", "all", "os.environ['WORLD_SIZE']")) == {"0-2": "'3'"}
    assert attach(home, "continue", "0").returncode == 0
    assert [rank.wait() for rank in ranks] == [0, 0, 0]


def test_each_visit_is_waited_for_by_itself(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, TWICE, 3)
    both = {0: "stopped", 1: "stopped", 2: "held"}
    wait_until_states(home, both)
    assert attach(home, "continue", "0").returncode == 0
    ranks[0].wait_for_output("passed 0")
    # Rank 2 still waits: rank 1 is at its first visit, although rank 0 is at its second.
    wait_until_states(home, both)
    assert "passed" not in ranks[2].text()
    assert attach(home, "continue", "1").returncode == 0
    ranks[2].wait_for_output("passed 0")
    wait_until_states(home, both)
    assert attach(home, "continue", "stopped").returncode == 0
    assert [rank.wait() for rank in ranks] == [0, 0, 0]


def test_a_step_of_the_chosen_rank_lets_nobody_go(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    script = "from dbg_agent import set_trace\nset_trace(ranks=0)\none = 1\ntwo = 2\nthree = 3\n"
    ranks = start_ranks(processes, home, script, 2)
    wait_until_states(home, {0: "stopped", 1: "held"})
    for _ in range(2):
        ask(home, "command", "0", "n")
        wait_until_states(home, {0: "stopped", 1: "held"})
    assert attach(home, "continue", "0").returncode == 0
    assert [rank.wait() for rank in ranks] == [0, 0]


def test_held_ranks_are_released_by_a_word(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, ONCE, 3)
    wait_until_states(home, {0: "stopped", 1: "held", 2: "held"})
    released = attach(home, "release", "held")
    assert released.returncode == 0, released.stderr
    assert [rank.wait() for rank in ranks[1:]] == [0, 0]
    wait_until_states(home, {0: "stopped"})
    assert attach(home, "continue", "0").returncode == 0
    assert ranks[0].wait() == 0


def test_without_hold_the_others_go_on_at_once(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, ONCE, 2, env={"DBG_HOLD": "0"})
    assert ranks[1].wait() == 0
    wait_until_states(home, {0: "stopped"})
    assert attach(home, "continue", "0").returncode == 0
    assert ranks[0].wait() == 0


def test_a_chosen_rank_that_never_comes_is_waited_for_as_long_as_the_grace(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    script = """\
import os, time
from dbg_agent import install, set_trace
install()
if os.environ["RANK"] == "1":
    set_trace(ranks=0, hold_grace=1)
while not os.path.exists("end"):
    time.sleep(0.05)
"""
    ranks = start_ranks(processes, home, script, 2)
    ranks[1].wait_for_output(r"goes on: rank 0 is not at .*:5 within 1 s", stream="stderr")
    for number in range(2):
        (home / "homes" / f"rank{number}" / "end").touch()
    assert [rank.wait() for rank in ranks] == [0, 0]


def test_when_the_chosen_rank_dies_the_rest_goes_on_with_a_line(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, ONCE, 3)
    wait_until_states(home, {0: "stopped", 1: "held", 2: "held"})
    ranks[0].kill()
    for rank in ranks[1:]:
        rank.wait_for_output("goes on: rank 0 has exited", stream="stderr")
        assert rank.wait() == 0


def test_when_a_held_rank_dies_nothing_changes_for_the_rest(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, ONCE, 3)
    wait_until_states(home, {0: "stopped", 1: "held", 2: "held"})
    ranks[2].kill()
    wait_until_states(home, {0: "stopped", 1: "held"})
    assert attach(home, "continue", "0").returncode == 0
    assert [rank.wait() for rank in ranks[:2]] == [0, 0]


def test_a_broker_killed_in_the_middle_changes_nothing(processes: Processes, home: Path) -> None:
    broker = running_broker(processes, home)
    ranks = start_ranks(processes, home, ONCE, 3)
    held = {0: "stopped", 1: "held", 2: "held"}
    wait_until_states(home, held)
    broker.kill()
    broker.restart()
    wait_until(home, lambda listed: len(listed) == 3, "all ranks back")
    wait_until_states(home, held)
    assert all("went on" not in rank.text() for rank in ranks)
    assert attach(home, "continue", "0").returncode == 0
    assert [rank.wait() for rank in ranks] == [0, 0, 0]


def test_whoever_attaches_to_a_held_rank_has_a_stop_of_their_own(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, ONCE, 2)
    wait_until_states(home, {0: "stopped", 1: "held"})
    assert attach(home, "screen", "1").returncode == 0
    wait_until_states(home, {0: "stopped", 1: "stopped"})
    assert attach(home, "continue", "0").returncode == 0
    assert ranks[0].wait() == 0
    wait_until_states(home, {1: "stopped"})
    assert attach(home, "continue", "1").returncode == 0
    assert ranks[1].wait() == 0


def test_a_lease_ends_a_stop_that_nobody_attached_to(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    (rank,) = start_ranks(processes, home, "from dbg_agent import set_trace\nset_trace(lease=0.5)\n", 1)
    rank.wait_for_output("nobody attached within its lease of 0.5 s", stream="stderr")
    assert rank.wait() == 0


def test_who_only_watches_does_not_end_a_lease_and_who_drives_does(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    script = "from dbg_agent import set_trace\nset_trace(lease=3)\nprint('went on')\n"
    (watched,) = start_ranks(processes, home, script, 1, name="watched")
    wait_until_states(home, {0: "stopped"})
    terminal = open_terminal(attach_command("0", "--watch"))
    watched.wait_for_output("went on")
    assert terminal.exit_status() == 7
    (driven,) = start_ranks(processes, home, script.replace("3", "2"), 1, name="driven")
    terminal = open_terminal(attach_command("wait", "0"))
    terminal.wait_for("PuDB")
    terminal.send(b"\x1dd")
    assert terminal.exit_status() == 0
    # The driver ended the lease for good, so only `continue` lets the rank go.
    assert not driven.ends_within(seconds(3))
    assert attach(home, "continue", "0").returncode == 0
    assert driven.wait() == 0


@needs_mpirun
def test_ranks_of_an_mpirun_are_held(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    script = tmp_path / "train.py"
    script.write_text(ONCE)
    job = processes.start("mpirun", mpirun(3, sys.executable, str(script)))
    wait_until_states(home, {0: "stopped", 1: "held", 2: "held"})
    assert attach(home, "continue", "0").returncode == 0
    assert job.wait(seconds(30)) == 0


def test_ranks_of_an_srun_are_held_over_hosts(slurm: Slurm, processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    script = tmp_path / "train.py"
    script.write_text(ONCE)
    command = ["srun", "-N2", "-n4", "--ntasks-per-node=2", sys.executable, str(script)]
    job = processes.start("srun", command, env=slurm.environment())
    wait_until_states(home, {0: "stopped", 1: "held", 2: "held", 3: "held"})
    assert attach(home, "continue", "0").returncode == 0
    assert job.wait(seconds(30)) == 0
