"""Running ranks are broken into at any place, and go on afterwards as if nothing had happened."""

from __future__ import annotations

from pathlib import Path

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


def test_a_rank_without_install_says_so(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    script = "import dbg_agent, time\ndbg_agent.set_trace(lease=0.1)\nprint('on', flush=True)\ntime.sleep(999)\n"
    (rank,) = start_ranks(processes, home, script, 1)
    # Before its stop the rank runs, too.
    rank.wait_for_output("on")
    wait_until_states(home, {0: "running"})
    (group,) = ask(home, "interrupt", "0")["groups"]
    assert group["kind"] == "error"
    assert "install()" in group["text"]
