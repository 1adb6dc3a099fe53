"""A crashed rank and its job are kept, and everything ends afterwards as without the debugger."""

from __future__ import annotations

import json
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
from tests.support.processes import Processes
from tests.support.ranks import (
    ask,
    attach,
    attach_command,
    attach_list,
    start_ranks,
    states,
    texts,
    wait_until,
    wait_until_states,
)
from tests.support.requirements import needs_mpirun, needs_torch
from tests.support.slurm import Slurm
from tests.support.time_unit import seconds

KEPT = {"CI": "", "DBG_LEASE": "600"}
"""Variables that keep crashed ranks, since ranks of test runs and CI jobs are not kept by default."""

JOB = """\
import os
import sys
import time
import dbg_agent
dbg_agent.install(post_mortem=True, lease=600)
who = next(os.environ[name] for name in ("OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "RANK") if name in os.environ)
def step(batch):
    if who == "1":
        raise ValueError(f"bad batch {batch}")
    while not os.path.exists(os.environ["DBG_HOME"] + "/crashed"):
        time.sleep(0.05)
step(batch=7)
"""
"""The other ranks end once the test has seen the crash: a rank that ends before has no reason to hold its exit."""

FORKS = """\
from multiprocessing import get_context
child = get_context("fork").Process(target=fails)
child.start()
child.join()
sys.exit(child.exitcode)
"""

CRASHED = {0: "held", 1: "stopped", 2: "held"}


def wait_until_kept(home: Path, wanted: Mapping[int, str], timeout: float | None = None) -> list[dict[str, Any]]:
    """Return the ranks once the crash is listed and all ranks are in the ``wanted`` states."""

    def all_there(listed: list[dict[str, Any]]) -> bool:
        return len(listed) == len(wanted) and "crash" in [rank["reason"] for rank in listed]

    wait_until(home, all_there, "all ranks and a crash", timeout=timeout)
    # A rank holds its exit only once it has heard of the crash, and each rank that has answered has heard of it.
    assert ask(home, "where", "all")["answered"] == len(wanted)
    (home / "crashed").touch()
    return wait_until_states(home, wanted, timeout)


def test_a_crashed_rank_is_kept_with_its_exception_and_the_others_hold_their_exits(
    processes: Processes, home: Path
) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, JOB, 3)
    listed = wait_until_kept(home, CRASHED)
    assert {rank["rank"]: rank["reason"] for rank in listed} == {0: None, 1: "crash", 2: None}
    assert listed[1]["where"] == {"file": str(home / "rank_script.py"), "line": 9, "function": "step"}
    # The traceback is on stderr as without the agent.
    assert "ValueError: bad batch 7" in ranks[1].text("stderr")
    assert "ValueError: bad batch 7" in attach(home, "list").stdout
    assert texts(ask(home, "eval", "crashed", "batch")) == {"1": "7"}
    (group,) = ask(home, "where", "crashed")["groups"]
    assert [frame["function"] for frame in group["frames"]] == ["<module>", "step"]
    assert attach(home, "continue", "crashed").returncode == 0
    assert [rank.wait() for rank in ranks] == [0, 1, 0]


@pytest.mark.parametrize("engine", ["pudb", "pdb"])
def test_whoever_attaches_is_where_it_was_raised(
    processes: Processes, home: Path, open_terminal: OpenTerminal, engine: str
) -> None:
    running_broker(processes, home)
    (rank,) = start_ranks(
        processes, home, JOB.replace('who == "1"', "True"), 1, env={"RANK": "0", "DBG_ENGINE": engine}
    )
    wait_until_states(home, {0: "stopped"})
    terminal = open_terminal(attach_command("0"), rows=30, cols=120)
    if engine == "pudb":
        terminal.wait_for("bad batch 7")
        terminal.send(b"\r")
        terminal.wait_for("batch: 7")
        terminal.send(b"\x1dd")
        assert terminal.exit_status() == 0
        assert attach(home, "continue", "0").returncode == 0
    else:
        terminal.wait_for("(Pdb)")
        terminal.send(b"p batch * 3\r")
        terminal.wait_for("21")
        terminal.send(b"c\r")
    assert rank.wait(seconds(20)) == 1


def test_what_it_died_of_stays_readable_after_the_job_has_ended(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, JOB, 3)
    wait_until_kept(home, CRASHED)
    assert attach(home, "continue", "crashed").returncode == 0
    assert [rank.wait() for rank in ranks] == [0, 1, 0]
    ended = wait_until(
        home, lambda listed: states(listed) == dict.fromkeys(range(3), "exited"), "all exited", listing=["--all"]
    )
    assert [rank["exit"] for rank in ended if rank["rank"] == 1] == [1]
    assert "ValueError: bad batch 7" in attach(home, "list", "--all").stdout
    document = json.loads(attach(home, "where", "1", "--all", "--json").stdout)
    assert [frame["function"] for frame in document["groups"][0]["frames"]] == ["<module>", "step"]


def test_where_ci_is_set_it_ends_as_it_would_have(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    (home / "crashed").touch()
    script = JOB.replace(", lease=600", "")
    ranks = start_ranks(processes, home, script, 2, env={"CI": "1"})
    assert [rank.wait() for rank in ranks] == [0, 1]


CAUGHT = """\
import dbg_agent
{install}
try:
    raise ValueError('here')
except ValueError:
    dbg_agent.post_mortem({lease})
"""
"""A program that calls post_mortem() itself."""


def test_a_lease_given_at_install_counts_for_post_mortem_too_and_so_where_ci_is_set(
    processes: Processes, home: Path
) -> None:
    running_broker(processes, home)
    script = CAUGHT.format(install="dbg_agent.install(post_mortem=True, lease=600)", lease="")
    # The lease that the program gives goes before the variables.
    (rank,) = start_ranks(processes, home, script, 1, env={"CI": "1", "DBG_LEASE": "0"})
    wait_until_states(home, {0: "stopped"})
    assert attach(home, "continue", "0").returncode == 0
    assert rank.wait() == 0


def test_the_lease_of_a_call_of_post_mortem_counts_before_that_of_install(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    script = CAUGHT.format(install="dbg_agent.install(lease=600)", lease="lease=0.2")
    (rank,) = start_ranks(processes, home, script, 1, env={"CI": "1"})
    rank.wait_for_output("nobody attached within its lease", stream="stderr")
    assert rank.wait() == 0


def test_post_mortem_says_that_it_keeps_nothing_where_ci_is_set(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    (rank,) = start_ranks(processes, home, CAUGHT.format(install="", lease=""), 1, env={"CI": "1", "DBG_LEASE": ""})
    assert rank.wait() == 0
    assert "post_mortem() keeps nothing where CI is set" in rank.text("stderr")


def test_a_lease_ends_the_keeping(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, JOB.replace("lease=600", "lease=1"), 3)
    (home / "crashed").touch()
    ranks[1].wait_for_output("nobody attached within its lease", stream="stderr")
    assert [rank.wait() for rank in ranks] == [0, 1, 0]


def test_without_a_broker_it_ends_as_it_would_have(processes: Processes, home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    (home / "crashed").touch()
    ranks = start_ranks(processes, home, JOB, 2, env={"DBG_CONNECT_TIMEOUT": "0.1"})
    assert [rank.wait() for rank in ranks] == [0, 1]
    assert "ValueError: bad batch 7" in ranks[1].text("stderr")


@pytest.mark.parametrize(
    ("script", "status", "function"),
    [
        ("import threading\nthread = threading.Thread(target=fails)\nthread.start()\nthread.join()\n", 0, "fails"),
        (FORKS, 1, "fails"),
        ("try:\n    fails()\nexcept ValueError:\n    dbg_agent.post_mortem()\n", 0, "fails"),
        ("import asyncio\nasync def main():\n    fails()\nasyncio.run(main())\n", 1, "fails"),
    ],
    ids=["thread", "multiprocessing", "post_mortem", "asyncio"],
)
def test_it_is_kept_wherever_it_was_raised(
    processes: Processes, home: Path, script: str, status: int, function: str
) -> None:
    running_broker(processes, home)
    head = (
        "import sys\nimport dbg_agent\ndbg_agent.install(post_mortem=True, lease=600)\n"
        "def fails():\n    local = 5\n    raise ValueError('here')\n"
    )
    (rank,) = start_ranks(processes, home, head + script, 1, env=KEPT)

    def crashed(listed: list[dict[str, object]]) -> bool:
        return [entry["reason"] for entry in listed if entry["state"] == "stopped"] == ["crash"]

    listed = wait_until(home, crashed, "a crash")
    (kept,) = [entry for entry in listed if entry["state"] == "stopped"]
    assert kept["where"]["function"] == function
    assert [*texts(ask(home, "eval", "crashed", "local")).values()] == ["5"]
    assert attach(home, "continue", "crashed").returncode == 0
    assert rank.wait(seconds(20)) == status


def test_a_cuda_error_says_that_its_traceback_may_be_late(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    script = (
        "import dbg_agent\ndbg_agent.install(post_mortem=True, lease=600)\nraise RuntimeError('CUDA error: assert')\n"
    )
    (rank,) = start_ranks(processes, home, script, 1)
    rank.wait_for_output("CUDA_LAUNCH_BLOCKING=1", stream="stderr")
    wait_until_states(home, {0: "stopped"})
    assert "CUDA_LAUNCH_BLOCKING=1" in attach(home, "list").stdout
    assert attach(home, "continue", "0").returncode == 0
    assert rank.wait() == 1


def test_the_traceback_is_there_while_it_is_kept_whoever_calls_our_hook(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    # Torch installs such a hook once it has a process group.
    script = """\
import io, sys
import dbg_agent
dbg_agent.install(post_mortem=True, lease=600)
former = sys.excepthook
def hook(*args):
    stderr, sys.stderr = sys.stderr, io.StringIO()
    try:
        former(*args)
    finally:
        buffer, sys.stderr = sys.stderr, stderr
    sys.stderr.write("[rank0]: " + buffer.getvalue())
sys.excepthook = hook
raise ValueError("told at once")
"""
    (rank,) = start_ranks(processes, home, script, 1)
    rank.wait_for_output("ValueError: told at once", stream="stderr")
    rank.wait_for_output("stopped at", stream="stderr")
    wait_until_states(home, {0: "stopped"})
    assert attach(home, "continue", "0").returncode == 0
    assert rank.wait() == 1
    assert rank.text("stderr").count("ValueError: told at once") == 1


def test_ctrl_c_and_exit_are_no_crashes(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    head = "import dbg_agent, sys, time\ndbg_agent.install(post_mortem=True, lease=600)\n"
    (rank,) = start_ranks(processes, home, f"{head}sys.exit(3)\n", 1, name="exits")
    assert rank.wait() == 3
    (rank,) = start_ranks(processes, home, f"{head}print('up', flush=True)\ntime.sleep(600)\n", 1, name="interrupted")
    rank.wait_for_output("up")
    # A Ctrl-C during imports would not show as SIGINT in the exit status.
    wait_until_states(home, {0: "running"})
    rank.signal(signal.SIGINT)
    assert rank.wait() == -signal.SIGINT


def test_sigterm_of_a_launcher_is_reported_and_leaves_what_is_kept(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    _, rank, _ = start_ranks(processes, home, JOB, 3)
    wait_until_kept(home, CRASHED)
    rank.signal(signal.SIGTERM)
    rank.wait_for_output("SIGTERM", stream="stderr")
    assert "ValueError: bad batch 7; got SIGTERM" in attach(home, "list").stdout
    assert texts(ask(home, "eval", "crashed", "batch")) == {"1": "7"}
    assert attach(home, "continue", "crashed").returncode == 0
    assert rank.wait() == 1


def test_a_script_under_our_runner_is_kept_without_a_change(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    script = tmp_path / "plain.py"
    script.write_text("def step(batch):\n    raise ValueError(batch)\nstep(7)\n")
    command = [sys.executable, "-m", "dbg_agent", "--post-mortem", "--lease", "600", str(script)]
    job = processes.start("plain", command, env={**os.environ, "DBG_HOME": str(home)})
    wait_until_states(home, {0: "stopped"})
    assert texts(ask(home, "eval", "crashed", "batch")) == {"0": "7"}
    (group,) = ask(home, "where", "crashed")["groups"]
    assert [frame["function"] for frame in group["frames"]] == ["<module>", "step"]
    assert attach(home, "continue", "crashed").returncode == 0
    assert job.wait() == 1


@needs_mpirun
def test_a_crash_does_not_end_an_mpirun_while_it_is_kept(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    script = tmp_path / "train.py"
    script.write_text(JOB)
    job = processes.start("mpirun", mpirun(3, sys.executable, str(script)))
    wait_until_kept(home, CRASHED)
    assert texts(ask(home, "eval", "crashed", "batch")) == {"1": "7"}
    assert attach(home, "continue", "crashed").returncode == 0
    assert job.wait(seconds(30)) == 1


def test_a_crash_does_not_end_an_srun_while_it_is_kept(
    slurm: Slurm, processes: Processes, home: Path, tmp_path: Path
) -> None:
    running_broker(processes, home)
    script = tmp_path / "train.py"
    script.write_text(JOB)
    command = ["srun", "-K", "-N2", "-n4", "--ntasks-per-node=2", sys.executable, str(script)]
    job = processes.start("srun", command, env=slurm.environment())
    wait_until_kept(home, {**CRASHED, 3: "held"})
    assert texts(ask(home, "eval", "crashed", "batch")) == {"1": "7"}
    assert attach(home, "continue", "crashed").returncode == 0
    # -K ends the others, as soon as the crashed one has ended: by SIGTERM, if they have not ended by themselves.
    assert job.wait(seconds(30)) in (1, 128 + signal.SIGTERM)


@needs_torch
@pytest.mark.timeout(seconds(120))
def test_a_crash_does_not_end_a_torchrun_while_it_is_kept(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    script = tmp_path / "train.py"
    script.write_text(JOB)
    job = processes.start("torchrun", torchrun(3, str(script)), env={**os.environ, "OMP_NUM_THREADS": "1"})
    wait_until_kept(home, CRASHED, seconds(60))
    assert texts(ask(home, "eval", "crashed", "batch")) == {"1": "7"}
    assert attach(home, "continue", "crashed").returncode == 0
    assert job.wait(seconds(60)) == 1
    assert not [rank for rank in attach_list(home) if rank["state"] != "exited"]
