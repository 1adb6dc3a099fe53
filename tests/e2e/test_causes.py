"""A rank that a signal has ended tells who sent that signal: the kernel, a time limit, the launcher."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, attach_list, start_ranks, wait_until, wait_until_states

SCRIPT = (
    "import threading\nimport dbg_agent\ndbg_agent.install()\nprint('RUNS', flush=True)\nthreading.Event().wait()\n"
)

FULL = """\
import os
from dbg_agent.guard import rank_side as guard
guard.BEAT_SECONDS = 0.1
import dbg_agent
with open(os.environ["GROUP"] + "/cgroup.procs", "w") as group:
    group.write("0")
dbg_agent.install()
print("RUNS", flush=True)
open(os.environ["GO"]).readline()
full = []
while True:
    full.append(b"x" * (1 << 20))
"""

GROUPS = Path("/sys/fs/cgroup/memory")


def wait_until_told(home: Path, *details: str) -> None:
    """Wait until the ends of the ranks are told in words that fit these patterns, rank by rank."""

    def is_told(ranks: list[dict[str, Any]]) -> bool:
        told = [rank["detail"] for rank in sorted(ranks, key=lambda rank: int(rank["rank"]))]
        return len(told) == len(details) and all(map(re.fullmatch, details, told))

    try:
        wait_until(home, is_told, f"{details}", listing=("--all",))
    except AssertionError:
        raise AssertionError(f"{[rank['detail'] for rank in attach_list(home, '--all')]} is not {details}") from None


def test_a_rank_whose_time_is_up_says_which_limit_it_was(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    (rank,) = start_ranks(processes, home, SCRIPT, 1, wrap=lambda command: ["timeout", "4", *command])
    assert rank.wait() == 124
    wait_until_told(home, "SIGTERM from `timeout 4`, whose time was up")
    assert attach_list(home, "--all")[0]["detail"] == "SIGTERM from `timeout 4`, whose time was up"
    assert "was killed by SIGTERM from `timeout 4`, whose time was up" in attach(home, "eval", "0", "x").stderr


def test_ranks_that_are_ended_after_another_one_name_it(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    first, second = start_ranks(processes, home, SCRIPT, 2)
    for rank in (first, second):
        rank.wait_for_output("RUNS")
    wait_until_states(home, {0: "running", 1: "running"})
    first.kill()
    second.signal(signal.SIGTERM)
    wait_until_told(home, "SIGKILL", "SIGTERM likely from its launcher, after rank 0 was killed by SIGKILL")


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of 128 MiB; the test is skipped where none may be made."""
    folder = GROUPS / f"dbg-broker-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(128 << 20))
        with suppress(OSError):
            (folder / "memory.memsw.limit_in_bytes").write_text(str(128 << 20))
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield folder
    with suppress(OSError):
        folder.rmdir()


def test_a_rank_that_the_kernel_ends_for_want_of_memory_says_so(group: Path, processes: Processes, home: Path) -> None:
    # The group is made first, so that it goes when all processes in it have ended.
    running_broker(processes, home)
    go = home / "go"
    os.mkfifo(go)
    (rank,) = start_ranks(processes, home, FULL, 1, env={"GROUP": str(group), "GO": str(go)})
    rank.wait_for_output("RUNS")
    go.write_text("go\n")
    assert rank.wait() == -signal.SIGKILL
    wait_until_told(
        home,
        r"SIGKILL from the kernel's out-of-memory killer \(limit of its cgroup 128\.0 MiB\);"
        r" it held \S+ MiB \S+ s before",
    )
