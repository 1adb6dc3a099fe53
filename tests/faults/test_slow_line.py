"""A line of 256 kbit/s between broker and terminal: Ctrl-C and keys are not behind what is still to be shown."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.faults.table_of_faults import SLOW
from tests.support.broker import running_broker
from tests.support.netns import Host
from tests.support.processes import Processes
from tests.support.pudb_terminal import HELP
from tests.support.ranks import attach_command, start_ranks, wait_until_stopped

pytestmark = [pytest.mark.integration, pytest.mark.netns, pytest.mark.alone]

SCRIPT = (
    """\
import os, time
from dbg_agent import set_trace
def until_interrupted(act):
    try:
        while True:
            act()
    except KeyboardInterrupt:
        at = time.monotonic()
    with open("interrupted", "a") as file:
        print(at, file=file)
def idles():
    time.sleep(0.01)
def floods():
    print("x" * 100)
set_trace(engine=os.environ["RANK_ENGINE"])
"""
    + "a = 1\n" * 300
)


def test_explore(two_hosts: tuple[Host, Host], processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
    h1, h2 = two_hosts
    running_broker(processes, home, listen="0.0.0.0", wrap=h1.command)
    start_ranks(processes, home, SCRIPT, 1, wrap=h1.command, world_size=2, env={"RANK_ENGINE": "pdb"}, master_port=7)
    start_ranks(
        processes, home, SCRIPT, 1, wrap=h1.command, world_size=2, first=1, env={"RANK_ENGINE": "pudb"}, master_port=7
    )
    wait_until_stopped(home, 2, wrap=h1.command)
    t = open_terminal(h2.command(attach_command("0")), 24, 100)
    t.wait_for("(Pdb)")
    p = open_terminal(h2.command(attach_command("1")), 50, 160)
    p.wait_for("Variables:")
    for host in two_hosts:
        assert host.run("sh", "-c", SLOW).returncode == 0
    file = home / "homes" / "rank0" / "interrupted"
    for n, what in enumerate(("idles", "floods", "idles", "floods")):
        t.send(f"until_interrupted({what})\r")
        if what == "floods":
            t.wait_for("xxxxxxx")
            t.read_for(3)
        else:
            t.wait_for("Ctrl-C interrupts")
            t.read_for(1)
        sent = time.monotonic()
        t.send("\x03")
        before = len(t.output)
        t.wait_for(lambda it: [r for r in it.screen if r][-2:-1] == ["(Pdb)"], 120)
        shown = time.monotonic() - sent
        print("T", what, float(file.read_text().split()[n]) - sent, "prompt after", shown, len(t.output) - before)
        t.send("\x0c")
        t.wait_for(lambda it: it.row(0) == "(Pdb)")
    for n in (10, 100, 300):
        before = len(p.output)
        sent = time.monotonic()
        p.send("Gg" * n + "?")
        p.wait_for(HELP, 100)
        print("T pudb", n, "after", time.monotonic() - sent, len(p.output) - before)
        p.send("\x1b")
        p.wait_for(lambda it: HELP not in "\n".join(it.screen))
