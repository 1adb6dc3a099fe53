"""A broker that is restarted, as by systemd, gives terminals over to the next one within 2.5 s."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Child, Processes
from tests.support.pudb_terminal import sit_in_pudb, wait_for_line
from tests.support.ranks import attach_command, start_ranks, wait_until_stopped
from tests.support.straight import STOP, STRAIGHT
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

pytestmark = pytest.mark.timeout(seconds(120))

MAX_SECONDS = 2.5
"""Seconds from the SIGTERM of one broker to the echo of a key that came through the next."""

CROWD = 48
"""Light ranks beside the two real ones."""

RESTARTS = 2

NOISY = """\
import threading
from dbg_agent import set_trace

def noisy():
    number = 0
    while True:
        number += 1
        print("line", number, flush=True)
        threading.Event().wait(0.002)

set_trace(engine="pdb")
"""
"""A rank whose pdb prints without an end when it is told to."""

PRINTED = re.compile(r"line (\d+)")


def last_printed(terminal: Terminal) -> int:
    """Return the number of the last line that the terminal shows."""
    return max((int(number) for number in PRINTED.findall("\n".join(terminal.screen))), default=0)


def shows_more_than(number: int) -> Callable[[Terminal], bool]:
    """Return whether a terminal shows a later line than this one."""
    return lambda terminal: last_printed(terminal) > number


@pytest.fixture
def crowded(processes: Processes, home: Path) -> tuple[RunningBroker, Child]:
    """Return a broker with a crowd of ranks."""
    # A process of its own from the start: other brokers of the tests are forked, with all that they import.
    broker = running_broker(processes, home, wrap=lambda command: ["env", *command])
    command = [sys.executable, "-m", "tests.support.returning_crowd", broker.url, broker.tokens["rank"], str(CROWD)]
    crowd = processes.start("crowd", command)
    crowd.wait_for_output("all are registered")
    return broker, crowd


def test_terminals_are_handed_over(
    crowded: tuple[RunningBroker, Child],
    processes: Processes,
    home: Path,
    open_terminal: OpenTerminal,
) -> None:
    broker, crowd = crowded
    start_ranks(processes, home, STRAIGHT, 1, name="straight")
    start_ranks(processes, home, NOISY, 1, name="noisy")
    stopped = {Path(rank["where"]["file"]).name: rank for rank in wait_until_stopped(home, 2) if rank["where"]}
    targets = {name: f"{rank['job']}/{rank['address']}" for name, rank in stopped.items()}
    pudb = sit_in_pudb(open_terminal, targets["straight_script.py"])
    pdb = open_terminal(attach_command(targets["noisy_script.py"]), 24, 100)
    pdb.wait_for("(Pdb)")
    pdb.send("noisy()\n")
    pdb.wait_for(PRINTED)
    line = STOP
    for _ in range(RESTARTS):
        broker.process.terminate()
        pudb.send("n")
        broker.process.wait()
        broker.restart()
        line += 1
        wait_for_line(pudb, line)
        seen = last_printed(pdb)
        pdb.wait_for(shows_more_than(seen))
    crowd.wait_for_output("(all are registered\n){2,}")
