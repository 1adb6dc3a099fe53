"""A long cut between two hosts: rank and terminal notice it, and are back within seconds of its end."""

from __future__ import annotations

import time
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.netns import Host
from tests.support.processes import Processes
from tests.support.pudb_terminal import wait_for_line
from tests.support.ranks import attach, start_ranks, wait_until, wait_until_stopped
from tests.support.sessions import detach, open_pudb
from tests.support.time_unit import seconds

EVERYWHERE = "0.0.0.0"  # noqa: S104 - of a network of the test's own

SCRIPT = """\
from dbg_agent import set_trace
set_trace()
a = 1
b = 2
c = 3
"""
STOP = 2
"""Line of the call in SCRIPT."""

HELD = """\
import os
from dbg_agent import set_trace
set_trace(ranks=0, hold_grace=1)
print("went on", flush=True)
"""


def test_after_a_cut_rank_and_terminal_are_back_within_seconds(
    two_hosts: tuple[Host, Host], processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    h1, h2 = two_hosts
    running_broker(processes, home, listen=EVERYWHERE, wrap=h1.command)
    (rank,) = start_ranks(processes, home, SCRIPT, 1, wrap=h2.command)
    wait_until_stopped(home, 1, wrap=h1.command)
    far = open_pudb(open_terminal, "0", "h2:0", wrap=h2.command)
    near = open_pudb(open_terminal, "0", "h2:0", wrap=h1.command)

    h2.unplug()
    cut = time.monotonic()
    (listed,) = wait_until(
        home, lambda ranks: ranks[0]["state"] == "unresponsive", "the silence of the rank", wrap=h1.command
    )
    (listed,) = wait_until(home, lambda ranks: bool(ranks[0]["driver_silent"]), "that of the driver", wrap=h1.command)
    assert time.monotonic() - cut < seconds(15)
    assert listed["driver"]
    far.send("n")
    # By then the kernels' own retries are seconds apart, or given up.
    near.wait_for(lambda terminal: "silent for 12 s" in terminal.row(-1), timeout=seconds(30))

    h2.plug()
    plugged = time.monotonic()
    for terminal in (far, near):
        wait_for_line(terminal, STOP + 1, seconds(20))
    assert time.monotonic() - plugged < seconds(6)
    detach(near)
    detach(far)
    assert attach(home, "continue", "0", wrap=h1.command).returncode == 0
    assert rank.wait() == 0


def test_ranks_held_for_one_whose_host_is_cut_off_and_whose_broker_restarts_wait_for_it(
    two_hosts: tuple[Host, Host], processes: Processes, home: Path
) -> None:
    h1, h2 = two_hosts
    broker = running_broker(processes, home, listen=EVERYWHERE, wrap=h1.command)
    (stopped,) = start_ranks(processes, home, HELD, 1, wrap=h2.command, world_size=2, master_port=7)
    wait_until_stopped(home, 1, wrap=h1.command)
    (held,) = start_ranks(processes, home, HELD, 1, wrap=h1.command, first=1, world_size=2, master_port=7)

    def is_held(ranks: list[dict[str, object]]) -> bool:
        return {"held"} == {rank["state"] for rank in ranks if rank["rank"] == 1}

    wait_until(home, is_held, "the held rank", wrap=h1.command)
    h2.unplug()
    broker.kill()
    broker.restart()
    held.wait_for_output(r"stays held: rank 0", stream="stderr")
    wait_until(home, is_held, "the held rank still held", wrap=h1.command)
    h2.plug()
    wait_until_stopped(home, 1, wrap=h1.command)
    assert attach(home, "continue", "0", wrap=h1.command).returncode == 0
    assert [rank.wait() for rank in (stopped, held)] == [0, 0]
    assert held.text() == "went on\n"
