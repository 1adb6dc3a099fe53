"""Running ranks stop where they are, or at a breakpoint of an IDE, and go on as if nothing had happened."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

import dbg_client
from dbg_client.api.breakpoints import breakpoints_in
from dbg_client.core.asking import Asker
from dbg_wire.messages import Action, Kind
from dbg_wire.records.inspection import BreakpointChanges, BreakpointSpec, BreakpointState, LineOfFile
from tests.support.broker import running_broker
from tests.support.processes import Child, Processes
from tests.support.ranks import ask, attach, start_ranks, texts, wait_until_states
from tests.support.time_unit import seconds

HEAD = """\
import asyncio
import os
import select
import threading
import time
import dbg_agent
dbg_agent.install()
count = 0

def loop():
    global count
    while not os.path.exists("end"):
        count += 1

def sleep():
    while not os.path.exists("end"):
        time.sleep(1)

def lock():
    event = threading.Event()
    threading.Timer(3, event.set).start()
    event.wait()
    sleep()

def poll():
    reader, writer = os.pipe()
    while not os.path.exists("end"):
        select.select([reader], [], [], 1)

def run_asyncio():
    async def main():
        while not os.path.exists("end"):
            await asyncio.sleep(1)
    asyncio.run(main())

"""


def start(processes: Processes, home: Path, call: str, n: int = 1) -> list[Child]:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, f"{HEAD}print('inside', flush=True)\n{call}()\nprint('ended well')\n", n)
    wait_until_states(home, dict.fromkeys(range(n), "running"))
    for rank in ranks:
        rank.wait_for_output("inside")
    return ranks


def end(home: Path, rank: Child) -> None:
    (home / "homes" / "rank0" / "end").touch()
    assert attach(home, "continue", "all").returncode == 0
    assert rank.wait(seconds(20)) == 0
    assert "ended well" in rank.text()


def test_a_running_rank_stops_at_once(processes: Processes, home: Path) -> None:
    (rank,) = start(processes, home, "loop")
    assert texts(ask(home, "interrupt", "0")) == {"0": "stopped"}
    (listed,) = wait_until_states(home, {0: "stopped"})
    assert listed["reason"] == "interrupt"
    assert listed["where"]["file"] != ""
    assert texts(ask(home, "eval", "0", "2 + 2")) == {"0": "4"}
    assert texts(ask(home, "interrupt", "0")) == {"0": "stopped already"}
    end(home, rank)


def test_a_rank_without_install_reports_it(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    script = "import dbg_agent, time\ndbg_agent.set_trace(lease=0.1)\nprint('on', flush=True)\ntime.sleep(999)\n"
    (rank,) = start_ranks(processes, home, script, 1)
    # Before its stop the rank runs, too.
    rank.wait_for_output("on")
    wait_until_states(home, {0: "running"})
    (group,) = ask(home, "interrupt", "0")["groups"]
    assert group["kind"] == "error"
    assert "install()" in group["text"]


TRAIN = """\
import dbg_agent, os, time
dbg_agent.install()
rank = int(os.environ["RANK"])

def step(number):
    loss = number / 2
    return loss

number = 0
print("trains", flush=True)
while not os.path.exists(os.environ["ENOUGH"]):
    step(number)
    number += 1
    time.sleep(0.001)
print("ended well", flush=True)
"""

LOSS = TRAIN.splitlines().index("    return loss") + 1


async def change_breakpoints(changes: BreakpointChanges) -> list[tuple[BreakpointState, ...]]:
    async with dbg_client.aconnect(timeout=seconds(20)) as broker:
        asker = Asker(broker._switchboard, seconds(10))
        answers = await asker.ask(Action.BREAKPOINTS, broker.ranks, inquiry=changes)
        assert all(answer.kind is Kind.VALUE for answer in answers), answers
        return [breakpoints_in(answer) for answer in answers]


def test_running_ranks_stop_at_a_breakpoint_of_an_ide_and_continue(
    processes: Processes, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    running_broker(processes, home)
    monkeypatch.setenv("DBG_HOME", str(home))
    enough = tmp_path / "enough"
    ranks = start_ranks(processes, home, TRAIN, 2, env={"ENOUGH": str(enough)})
    wait_until_states(home, {0: "running", 1: "running"})
    for rank in ranks:
        rank.wait_for_output("trains")
    is_monitored = sys.version_info >= (3, 12)
    if not is_monitored:
        # A breakpoint in a loaded file counts from the next stop on.
        attach(home, "interrupt", "all", "-y")
        wait_until_states(home, {0: "stopped", 1: "stopped"})
    file = str(home / "rank_script.py")
    spec = BreakpointSpec(file=file, line=LOSS, condition="rank == 1 or number > 100", hits="== 1")
    for (state,) in asyncio.run(change_breakpoints(BreakpointChanges(set=(spec,)))):
        assert (state.asked, state.line, state.is_set, state.problem) == (LOSS, LOSS, True, "")
    if not is_monitored:
        attach(home, "continue", "all")
    wait_until_states(home, {0: "stopped", 1: "stopped"})
    assert texts(ask(home, "eval", "all", "number > 100")) in ({"0-1": "True"}, {"0": "True", "1": "False"})
    for (state,) in asyncio.run(change_breakpoints(BreakpointChanges())):
        assert (state.hits_so_far, state.condition) == (1, spec.condition)
    cleared = BreakpointChanges(clear=(LineOfFile(file=file, line=LOSS),))
    assert asyncio.run(change_breakpoints(cleared)) == [(), ()]
    attach(home, "continue", "all")
    wait_until_states(home, {0: "running", 1: "running"})
    enough.touch()
    for rank in ranks:
        assert rank.wait() == 0
        assert "ended well" in rank.text()
