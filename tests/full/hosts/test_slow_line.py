"""A line of 256 kbit/s between broker and terminal: Ctrl-C and keys do not wait behind what is still to be shown."""

from __future__ import annotations

import time
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.full.hosts.stage import EVERYWHERE
from tests.full.hosts.table_of_faults import SLOW
from tests.support.broker import running_broker
from tests.support.netns import Host
from tests.support.processes import Processes
from tests.support.pudb_terminal import DRAWN, HELP
from tests.support.ranks import attach_command, start_ranks, wait_until_stopped
from tests.support.time_unit import seconds

SCRIPT = """\
import os, time
from dbg_agent import set_trace
def floods():
    try:
        while True:
            print("x" * 100)
    except KeyboardInterrupt:
        print(time.monotonic(), file=os.fdopen(os.open("interrupted", os.O_WRONLY | os.O_CREAT), "w"), flush=True)
set_trace(engine="pdb" if os.environ["RANK"] == "0" else "pudb")
"""
LONG = SCRIPT + "a = 1\n" * 300
"""A script of several screens, so that going to its end and back draws each of them."""

INTERRUPTED_SECONDS = 1.0
"""Bound for Ctrl-C from the terminal to the rank, while what is still to be shown takes the line much longer."""

REDRAWS = 100
"""Pairs of keys that draw the whole screen, 4 KB each: if each were sent, the line would need 25 s."""

DRAWN_SECONDS = 15.0
"""Bound for the screen after all these keys."""


def test_ctrl_c_and_keys_overtake_what_is_still_to_be_shown(
    two_hosts: tuple[Host, Host], processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    h1, h2 = two_hosts
    running_broker(processes, home, listen=EVERYWHERE, wrap=h1.command)
    start_ranks(processes, home, LONG, 2, wrap=h1.command)
    wait_until_stopped(home, 2, wrap=h1.command)
    pdb = open_terminal(h2.command(attach_command("0")), 24, 100)
    pdb.wait_for("(Pdb)")
    pudb = open_terminal(h2.command(attach_command("1")), 50, 160)
    pudb.wait_for(DRAWN)
    for host in two_hosts:
        assert host.run("sh", "-c", SLOW).returncode == 0

    begun = time.monotonic()
    pudb.send("Gg" * REDRAWS + "?")
    pudb.wait_for(HELP, seconds(60))
    drawn = time.monotonic() - begun
    print(f"the screen after {2 * REDRAWS} keys that draw all of it: {drawn:.1f} s")  # noqa: T201
    assert drawn < seconds(DRAWN_SECONDS)

    pdb.send("floods()\r")
    pdb.wait_for("x" * 90 + "\n" + "x" * 90, seconds(30))
    sent = time.monotonic()
    pdb.send("\x03")
    noted = home / "homes" / "rank0" / "interrupted"
    pdb.wait_for(lambda _: noted.exists() and noted.read_text(), seconds(30))
    interrupted = float(noted.read_text()) - sent
    print(f"Ctrl-C under output: {1000 * interrupted:.0f} ms")  # noqa: T201
    assert interrupted < seconds(INTERRUPTED_SECONDS)
