"""A job of many held ranks costs the broker little processor time."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.time_unit import seconds

RANKS, STEP = 256, 8

MAX_CPU_SECONDS = 1.2
"""Seconds of the broker's own processor time; 0.4 were measured, and 2.4 when every rank was told everything."""


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process, to which other processes of the machine add nothing."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_many_ranks_are_held_and_let_go_at_a_cost_that_grows_with_their_number(
    processes: Processes, home: Path
) -> None:
    broker = running_broker(processes, home, "--insecure")
    tokens = broker.tokens
    command = [sys.executable, "-m", "tests.support.crowd"]
    before = cpu_seconds(broker.process.pid)
    crowd = processes.start("crowd", [*command, "hold", broker.url, tokens["rank"], str(RANKS), str(STEP)])
    assert crowd.wait(seconds(60)) == 0
    spent = cpu_seconds(broker.process.pid) - before
    told = json.loads(crowd.text())
    chosen = RANKS // STEP
    # Each held rank hears of each chosen rank once, and of its two changes. A whole list each time is 32 times as much.
    assert told["changes"] <= (RANKS - chosen) * chosen * 4
    assert spent < seconds(MAX_CPU_SECONDS)
