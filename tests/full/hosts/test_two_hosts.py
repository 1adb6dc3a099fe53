"""Two hosts that share only a home: both find the broker; a long cut, a slow line and a balancer are borne."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OpenTerminal
from tests.full.hosts.stage import EVERYWHERE
from tests.full.hosts.table_of_faults import SLOW
from tests.support.broker import running_broker
from tests.support.netns import Host
from tests.support.processes import Child, Processes
from tests.support.pudb_terminal import DRAWN, HELP
from tests.support.ranks import (
    NEVER_BOUND_PORTS,
    attach,
    attach_command,
    attach_list,
    start_ranks,
    wait_until,
    wait_until_stopped,
)
from tests.support.sessions import detach, open_pudb
from tests.support.time_unit import seconds

TwoHosts = tuple[Host, Host]

NO_SUCH_PROXY = "http://127.0.0.1:9"
"""Port 9 has no listener here, so a dial is refused."""

NEVER = "600"
"""Seconds of a timeout that no test waits for, since ranks and terminals report at once what is wrong."""

SCRIPT = """\
import os
from dbg_agent import set_trace
who = f"rank {os.environ['RANK']} on {os.uname().nodename}"
set_trace()
a = 1
b = 2
c = 3
print(who, "went on", flush=True)
"""

METRICS = """\
import ssl, sys, urllib.request
opener = urllib.request.build_opener(
    urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=ssl._create_unverified_context())
)
print(opener.open(sys.argv[1]).read().decode())
"""


@pytest.fixture(autouse=True)
def proxy_to_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name a proxy for all protocols, in both spellings, to all processes of the test."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "ws_proxy", "wss_proxy"):
        monkeypatch.setenv(name, NO_SUCH_PROXY)
        monkeypatch.setenv(name.upper(), NO_SUCH_PROXY)


def start_on_both(processes: Processes, home: Path, two_hosts: TwoHosts) -> list[Child]:
    """Start a job of four ranks, two on each host."""
    port = next(NEVER_BOUND_PORTS)
    ranks: list[Child] = []
    for host in two_hosts:
        ranks += start_ranks(
            processes, home, SCRIPT, 2, wrap=host.command, first=len(ranks), world_size=4, master_port=port
        )
    return ranks


def numbers(listed: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """Return address, local rank and world size of each rank."""
    return [(rank["address"], rank["local_rank"], rank["world_size"]) for rank in listed]


def test_ranks_and_terminals_on_both_hosts_find_the_broker(
    two_hosts: TwoHosts, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    h1, h2 = two_hosts
    broker = running_broker(processes, home, listen=EVERYWHERE, wrap=h1.command)
    assert broker.url == f"wss://h1:{broker.port}"
    ranks = start_on_both(processes, home, two_hosts)
    for host in two_hosts:
        stopped = wait_until_stopped(home, 4, wrap=host.command)
        assert numbers(stopped) == [("h1:0", 0, 4), ("h1:1", 1, 4), ("h2:2", 0, 4), ("h2:3", 1, 4)]
        assert len({(rank["job"], rank["run"]) for rank in stopped}) == 1
    for host, target, who in (
        (h1, "h1:0", "rank 0 on h1"),
        (h1, "h2:2", "rank 2 on h2"),
        (h2, "h1:1", "rank 1 on h1"),
        (h2, "h2:3", "rank 3 on h2"),
    ):
        terminal = open_pudb(open_terminal, target, target, wrap=host.command)
        terminal.wait_for(f"who: '{who}'")
        detach(terminal)
    assert attach(home, "continue", "all", wrap=h2.command).returncode == 0
    assert [rank.wait() for rank in ranks] == [0, 0, 0, 0]


def test_a_rank_on_another_host_reports_a_loopback_broker_at_once(
    two_hosts: TwoHosts, processes: Processes, home: Path
) -> None:
    h1, _ = two_hosts
    running_broker(processes, home, wrap=h1.command)
    variables = {"DBG_CONNECT_TIMEOUT": NEVER}
    here, there = (
        start_ranks(processes, home, SCRIPT, 1, wrap=host.command, env=variables, name=f"on-{host.name}-")[0]
        for host in two_hosts
    )
    assert there.wait() == 0
    (line,) = there.text("stderr").splitlines()
    assert line.startswith("dbg-agent: h2:0: ")
    assert all(fact in line for fact in ("h1", "`dbg-broker serve --listen 0.0.0.0`"))
    assert there.text() == "rank 0 on h2 went on\n"
    # The same broker serves the rank on its own host.
    assert [rank["address"] for rank in wait_until_stopped(home, 1, wrap=h1.command)] == ["h1:0"]
    assert attach(home, "continue", "0", wrap=h1.command).returncode == 0
    assert here.wait() == 0


def test_a_host_that_is_not_allowed_is_rejected_before_tls(
    two_hosts: TwoHosts, processes: Processes, home: Path
) -> None:
    h1, h2 = two_hosts
    broker = running_broker(processes, home, "--allow", "203.0.113.0/24", listen=EVERYWHERE, wrap=h1.command)
    assert attach_list(home, wrap=h1.command) == []
    rejected = attach(home, "list", wrap=h2.command)
    assert rejected.returncode == 4
    assert f"wss://h1:{broker.port}" in rejected.stderr
    metrics = h1.run(sys.executable, "-c", METRICS, broker.url.replace("wss", "https") + "/metrics").stdout
    assert re.search(r"^dbg_broker_turned_away_total [1-9]", metrics, re.MULTILINE)
    assert "dbg_broker_handshake_failures_total 0\n" in metrics


HELD = """\
import os
from dbg_agent import set_trace
set_trace(ranks=0, hold_grace=1)
print("went on", flush=True)
"""


def test_held_ranks_wait_for_a_disconnected_rank_over_a_restart_of_the_broker(
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
    wait_until(home, is_held, "the held rank still held", wrap=h1.command)
    h2.plug()
    wait_until_stopped(home, 1, wrap=h1.command)
    assert attach(home, "continue", "0", wrap=h1.command).returncode == 0
    assert [rank.wait() for rank in (stopped, held)] == [0, 0]
    assert held.text() == "went on\n"


FLOODS = """\
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
LONG = FLOODS + "a = 1\n" * 300
"""A script of several screens, so that going to its end and back draws each of them."""

INTERRUPTED_SECONDS = 1.0
"""Bound for Ctrl-C from the terminal to the rank, while what is still to be shown takes the line much longer."""

REDRAWS = 100
"""Pairs of keys that draw the whole screen, 4 KB each: if each were sent, the line would need 25 s."""

DRAWN_SECONDS = 15.0
"""Bound for the screen after all these keys."""


def test_ctrl_c_and_keys_overtake_pending_output(
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
