"""Running ranks are broken into at any place, and go on afterwards as if nothing had happened."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from dbg_wire.messages import Action, Answers, Question
from dbg_wire.records.ranks import RankInfo, RankState
from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Child, Processes
from tests.support.pudb_terminal import DRAWN
from tests.support.ranks import ask, attach, attach_command, start_ranks, texts, wait_until_states
from tests.support.raw_terminal import listed, raw_terminal
from tests.support.runs import Directory
from tests.support.time_unit import seconds
from tests.unit.broker.peers import Peer

HEAD = """\
import asyncio
import hashlib
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

def c_code():
    while not os.path.exists("end"):
        hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 6_000_000)

"""


def start(processes: Processes, home: Path, call: str, n: int = 1) -> list[Child]:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, f"{HEAD}{call}()\nprint('ended well')\n", n)
    wait_until_states(home, dict.fromkeys(range(n), "running"))
    return ranks


def end(home: Path, rank: Child) -> None:
    (home / "homes" / "rank0" / "end").touch()
    assert attach(home, "continue", "all").returncode == 0
    assert rank.wait(seconds(20)) == 0
    assert "ended well" in rank.text()


def wait_until_inside(home: Path, function: str) -> None:
    """Wait until the rank's main thread is in this function."""

    deadline = time.monotonic() + seconds(20)
    while True:
        (group,) = ask(home, "where", "0")["groups"]
        if function in [frame["function"] for frame in group["frames"]]:
            return
        assert time.monotonic() < deadline, f"the rank was never in {function}: {group}"


@pytest.mark.parametrize("call", ["loop", "sleep", "lock", "poll", "run_asyncio"])
def test_a_running_rank_stops_at_once(processes: Processes, home: Path, call: str) -> None:
    (rank,) = start(processes, home, call)
    wait_until_inside(home, call)
    assert texts(ask(home, "interrupt", "0")) == {"0": "stopped"}
    (listed,) = wait_until_states(home, {0: "stopped"})
    assert listed["reason"] == "interrupt"
    assert listed["where"]["file"] != ""
    assert texts(ask(home, "eval", "0", "2 + 2")) == {"0": "4"}
    assert texts(ask(home, "interrupt", "0")) == {"0": "stopped already"}
    end(home, rank)


def test_who_breaks_in_drives_although_another_terminal_follows(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    (rank,) = start(processes, home, "loop")
    following = open_terminal(attach_command("--follow", "0"), 24, 120)
    following.wait_for("waiting")
    breaking_in = open_terminal(attach_command("interrupt", "0"), 24, 120)
    following.wait_for("watching")
    breaking_in.wait_for(DRAWN)
    following.wait_for(DRAWN)
    breaking_in.wait_for(lambda terminal: "stopped" in terminal.row(-1) and "watching" not in terminal.row(-1))
    end(home, rank)


def test_who_breaks_in_by_the_picker_drives_and_run_looks_on(directory: Directory, open_terminal: OpenTerminal) -> None:
    directory.write("import time\nwhile True:\n    time.sleep(0.01)\n")
    run = directory.start("--", sys.executable, "train.py")
    # Three stops: which of the terminals is there first differs from stop to stop.
    for columns in (120, 140, 120):
        picking = open_terminal(attach_command(), 24, columns, directory.variables)
        picking.wait_for(re.compile(r":0  running "))
        picking.send("\r")
        picking.wait_for("is running. Break in and attach? [y/N]")
        picking.send("y")
        picking.wait_for(lambda terminal: " stopped " in terminal.row(-1) and DRAWN in "\n".join(terminal.screen))
        run.wait_for(lambda terminal: "watching" in terminal.row(-1) and DRAWN in "\n".join(terminal.screen))
        assert "watching" not in picking.row(-1)
        picking.send("c")
        assert picking.exit_status() == 7
        run.wait_for("waiting for the next stop")
    directory.attach("kill", "all", "-y")
    assert run.exit_status() == 128 + signal.SIGKILL


def test_one_in_c_code_says_where_it_is_and_stops_on_return(processes: Processes, home: Path) -> None:
    (rank,) = start(processes, home, "c_code")
    wait_until_inside(home, "c_code")
    document = ask(home, "interrupt", "0", "--timeout", "1")
    (group,) = document["groups"]
    if group["kind"] == "running":
        assert "in C code" in group["text"]
        assert "c_code" in group["text"]
        assert "stops on return" in group["text"]
    else:
        # The C code returned in the moment of the break-in.
        assert group["text"] == "stopped"
    wait_until_states(home, {0: "stopped"}, seconds(60))
    end(home, rank)


def test_every_rank_of_a_set_is_broken_into(processes: Processes, home: Path) -> None:
    ranks = start(processes, home, "loop", 3)
    assert texts(ask(home, "interrupt", "all", "-y")) == {"0-2": "stopped"}
    wait_until_states(home, dict.fromkeys(range(3), "stopped"))
    for number in range(3):
        (home / "homes" / f"rank{number}" / "end").touch()
    assert attach(home, "continue", "all").returncode == 0
    assert [rank.wait(seconds(20)) for rank in ranks] == [0, 0, 0]


def test_it_attaches_to_a_single_rank_and_steps_go_on_from_there(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    (rank,) = start(processes, home, "loop")
    terminal = open_terminal(attach_command("interrupt", "0"), rows=30, cols=120)
    terminal.wait_for("count")
    terminal.wait_for("stopped")
    terminal.send(b"nn")
    terminal.send(b"\x1dd")
    assert terminal.exit_status() == 0
    end(home, rank)


def test_a_rank_without_install_says_so(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    script = "import dbg_agent, time\ndbg_agent.set_trace(lease=0.1)\nwhile True: time.sleep(1)\n"
    (rank,) = start_ranks(processes, home, script, 1)
    # Before its stop the rank runs, too.
    rank.wait_for_output("nobody attached within its lease", stream="stderr")
    wait_until_states(home, {0: "running"})
    (group,) = ask(home, "interrupt", "0")["groups"]
    assert group["kind"] == "error"
    assert "install()" in group["text"]


def test_ctrl_c_keeps_its_meaning_for_the_job(processes: Processes, home: Path) -> None:
    (rank,) = start(processes, home, "sleep")
    assert texts(ask(home, "interrupt", "0")) == {"0": "stopped"}
    assert attach(home, "continue", "0").returncode == 0
    wait_until_inside(home, "sleep")
    rank.signal(signal.SIGINT)
    assert rank.wait(seconds(20)) == -signal.SIGINT
    rank.wait_for_output("KeyboardInterrupt", stream="stderr")


async def test_python_code_and_waits_stop_again_and_again(processes: Processes, home: Path) -> None:
    broker = running_broker(processes, home)
    start_ranks(processes, home, f"{HEAD}loop() if os.environ['RANK'] == '0' else sleep()\n", 2)
    async with raw_terminal(broker) as peer:
        keys: dict[int, str] = {}
        while len(keys) < 2:
            rank = await listed(peer, lambda info: info.rank not in keys)
            keys[rank.rank] = rank.key
        for key in keys.values():
            for _ in range(3):
                told = await answer(peer, key, Action.INTERRUPT)
                if told != "stopped":
                    # On a busy host a thread may need longer than the answer waits for it; it stops then all the same.
                    assert told.endswith("stops on return")
                    await listed(peer, partial(is_stopped, key))
                assert await answer(peer, key, Action.CONTINUE) == "continued"


def is_stopped(key: str, rank: RankInfo) -> bool:
    return rank.key == key and rank.state is RankState.STOPPED


async def answer(peer: Peer, key: str, action: Action) -> str:
    await peer.say(Question(request=1, keys=(key,), action=action, seconds=seconds(10)))
    return (await peer.expect(Answers)).answers[0].text


def test_a_script_under_our_runner_is_broken_into_without_a_change(
    processes: Processes, home: Path, tmp_path: Path
) -> None:
    running_broker(processes, home)
    script = tmp_path / "plain.py"
    script.write_text("import time\ncount = 7\nwhile True:\n    time.sleep(1)\n")
    command = [sys.executable, "-m", "dbg_agent", str(script)]
    processes.start("plain", command, env={**os.environ, "DBG_HOME": str(home)})
    wait_until_states(home, {0: "running"})
    assert texts(ask(home, "interrupt", "0")) == {"0": "stopped"}
    assert texts(ask(home, "eval", "0", "count")) == {"0": "7"}
    (group,) = ask(home, "where", "0")["groups"]
    assert [frame["function"] for frame in group["frames"]] == ["<module>"]
    assert attach(home, "kill", "0", "-y").returncode == 0
