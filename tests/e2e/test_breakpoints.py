"""Breakpoints set through the broker in ranks that run, and those of a session when it is over."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from dbg_wire.records.inspection import BreakpointChanges, BreakpointSpec, LineOfFile
from tests.smoke.test_break_in import change_breakpoints
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, start_ranks, wait_until_states

STILL_IMPORTS = """\
import os
import time
import dbg_agent
dbg_agent.install()
while not os.path.exists("imported"):
    time.sleep(0.01)

def decorated(function):
    return lambda number: function(number)

class Model:
    @decorated
    def step(number):
        loss = number / 2
        return loss

def train():
    while not os.path.exists("read"):
        time.sleep(0.01)
    def step(number):
        return number * 2  # inner
    number = 0
    while not os.path.exists("enough"):
        Model.step(number)
        step(number)
        number += 1
        time.sleep(0.001)

train()
print("ended well", flush=True)
"""
"""A script whose functions are made when its imports are over."""


if sys.version_info >= (3, 12):
    # On 3.11 a loaded file stops from the rank's next stop on.

    def test_functions_defined_after_the_breakpoint_stop(
        processes: Processes, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        running_broker(processes, home)
        monkeypatch.setenv("DBG_HOME", str(home))
        (rank,) = start_ranks(processes, home, STILL_IMPORTS, 1)
        wait_until_states(home, {0: "running"})
        number = next(number for number, text in enumerate(STILL_IMPORTS.splitlines(), 1) if "# inner" in text)
        spec = BreakpointSpec(file=str(home / "rank_script.py"), line=number)
        (((state,),)) = asyncio.run(change_breakpoints(BreakpointChanges(set=(spec,))))
        assert (state.is_set, state.problem) == (True, "")
        (home / "homes/rank0/imported").touch()
        (home / "homes/rank0/read").touch()
        wait_until_states(home, {0: "stopped"})
        (((state,),)) = asyncio.run(change_breakpoints(BreakpointChanges()))
        assert state.hits_so_far == 1
        asyncio.run(change_breakpoints(BreakpointChanges(clear=(LineOfFile(file=spec.file, line=number),))))
        (home / "homes/rank0/enough").touch()
        attach(home, "continue", "all")
        assert rank.wait() == 0
        assert "ended well" in rank.text()
