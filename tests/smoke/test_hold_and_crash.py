"""Chosen ranks stop, and the other ranks wait for them outside of collectives, as long as the stops last."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import ask, attach, start_ranks, texts, wait_until, wait_until_states

ONCE = """\
import os
from dbg_agent import set_trace
set_trace(ranks=0)
print("went on")
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


def test_a_crashed_rank_without_a_broker_ends_as_usual(processes: Processes, home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    (home / "crashed").touch()
    ranks = start_ranks(processes, home, JOB, 2, env={"DBG_CONNECT_TIMEOUT": "0.1"})
    assert [rank.wait() for rank in ranks] == [0, 1]
    assert "ValueError: bad batch 7" in ranks[1].text("stderr")
