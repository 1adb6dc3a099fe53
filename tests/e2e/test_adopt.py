"""`dbg-attach adopt`: jobs that nobody prepared become ranks, and go on as they were."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Child, Processes
from tests.support.pudb_terminal import sit_in_pudb
from tests.support.ranks import attach, attach_list, wait_until
from tests.support.requirements import needs_gdb
from tests.support.time_unit import seconds

pytestmark = needs_gdb

SLEEPS = """\
import time

def wait_for_shard():
    shard = 17
    while True:
        time.sleep(1000)

def train_step():
    wait_for_shard()

print("up", flush=True)
train_step()
"""


def unprepared() -> dict[str, str]:
    """Return an environment without any variable of ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith("DBG_")}


def start(processes: Processes, home: Path, script: str, *arguments: str, **variables: str) -> Child:
    """Start a script that knows nothing of us, and return when it runs."""
    path = home / "train.py"
    path.write_text(script)
    command = [sys.executable, str(path), *arguments]
    child = processes.start("train", command, env={**unprepared(), **variables})
    child.wait_for_output("up", timeout=seconds(60))
    return child


def test_a_hanging_process_is_adopted_listed_asked_and_interrupted(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    child = start(processes, home, SLEEPS, RANK="3", WORLD_SIZE="8")
    adopted = attach(home, "adopt", str(child.pid))
    assert adopted.returncode == 0, adopted.stderr
    (rank,) = attach_list(home)
    assert adopted.stdout == f"adopted {rank['address']} (pid {child.pid}): dbg-attach where {rank['address']}\n"
    assert (rank["rank"], rank["world_size"], rank["pid"]) == (3, 8, child.pid)
    assert "train_step train.py:9 > wait_for_shard train.py:6" in attach(home, "where", "3").stdout
    assert "17" in attach(home, "eval", "3", "shard", "--live").stdout
    again = attach(home, "adopt", str(child.pid))
    assert again.returncode == 0, again.stderr
    assert "already" in again.stdout
    assert [one["pid"] for one in attach_list(home)] == [child.pid]
    terminal = sit_in_pudb(open_terminal, "interrupt", "3")
    terminal.send("q")
    wait_until(home, lambda listed: listed[0]["state"] == "stopped", "the stop")
    assert child.exit_status is None


def test_a_process_without_a_token_is_left_alone(processes: Processes, home: Path, tmp_path: Path) -> None:
    broker = running_broker(processes, home)
    child = start(processes, home, SLEEPS)
    refused = attach(tmp_path / "no home", "adopt", str(child.pid), env=terminal_without_home(broker))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"process {child.pid} " in refused.stderr
    assert "DBG_TOKEN_FILE" in refused.stderr
    assert_untouched(child)


def terminal_without_home(broker: RunningBroker) -> dict[str, str]:
    """Return the variables of a terminal that has an address and a token of its own, and no home."""
    address = f"{broker.rendezvous['url']}#{broker.rendezvous['fingerprint']}"
    return {"DBG_BROKER": address, "DBG_TOKEN": broker.tokens["driver"]}


def assert_untouched(child: Child) -> None:
    """Check that a process of one thread goes on and has no other, as an agent would be that tries for ever."""
    assert child.exit_status is None
    assert len(list(Path(f"/proc/{child.pid}/task").iterdir())) == 1
