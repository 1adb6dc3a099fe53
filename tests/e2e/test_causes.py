"""A rank that a signal has ended tells who sent that signal: the kernel, a time limit, the launcher."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach_list, start_ranks, wait_until, wait_until_states

SCRIPT = (
    "import threading\nimport dbg_agent\ndbg_agent.install()\nprint('RUNS', flush=True)\nthreading.Event().wait()\n"
)


def wait_until_told(home: Path, *details: str) -> None:
    """Wait until the ends of the ranks are told in words that fit these patterns, rank by rank."""

    def is_told(ranks: list[dict[str, Any]]) -> bool:
        told = [rank["detail"] for rank in sorted(ranks, key=lambda rank: int(rank["rank"]))]
        return len(told) == len(details) and all(map(re.fullmatch, details, told))

    try:
        wait_until(home, is_told, f"{details}", listing=("--all",))
    except AssertionError:
        raise AssertionError(f"{[rank['detail'] for rank in attach_list(home, '--all')]} is not {details}") from None


def test_ranks_that_are_ended_after_another_one_name_it(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    first, second = start_ranks(processes, home, SCRIPT, 2)
    for rank in (first, second):
        rank.wait_for_output("RUNS")
    wait_until_states(home, {0: "running", 1: "running"})
    first.kill()
    second.signal(signal.SIGTERM)
    wait_until_told(home, "SIGKILL", "SIGTERM .*rank 0 .*SIGKILL")
