"""A stop outlives an exchange of the broker's certificate, and a token that only the broker's memory holds."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.certificates import Authority
from tests.support.processes import Child, Processes, run_command
from tests.support.pudb_terminal import sit_in_pudb, wait_for_line
from tests.support.ranks import attach, attach_command, attach_list, start_ranks, wait_until_stopped
from tests.support.straight import LINES, STOP, STRAIGHT
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds


def verb(home: Path, *arguments: str) -> str:
    """Run a verb of dbg-broker and return what it prints."""
    done = run_command(
        [sys.executable, "-m", "dbg_broker", *arguments], {**os.environ, "DBG_HOME": str(home)}, seconds(60)
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def let_finish(terminal: Terminal, rank: Child) -> None:
    terminal.send("c")
    assert terminal.exit_status() == 7
    assert rank.wait() == 0
    assert rank.text().splitlines()[-1] == f"total {LINES}"


def test_a_stop_and_its_terminal_go_on_with_the_next_certificate_by_home_and_by_two_pins(
    processes: Processes, home: Path, tmp_path: Path, open_terminal: OpenTerminal
) -> None:
    broker = running_broker(processes, home)
    (by_home,) = start_ranks(processes, home, STRAIGHT, 1)
    wait_until_stopped(home, 1)
    terminal = sit_in_pudb(open_terminal, ":0")
    terminal.send("n")
    wait_for_line(terminal, STOP + 1)
    verb(home, "certificate", "--rotate")
    first, second = broker.rendezvous["fingerprints"]

    # Two ranks that don't share the home: one was given both fingerprints before the switch, and the other was not.
    address = f"127.0.0.1:{broker.port}"
    away = {"DBG_HOME": str(tmp_path / "none"), "DBG_TOKEN_FILE": str(home / "tokens" / "rank")}
    both, one = (
        start_ranks(processes, home, STRAIGHT, 1, env={**away, "DBG_BROKER": f"{address}#{pins}"}, name=name)[0]
        for name, pins in (("both", f"{first},{second}"), ("one", first))
    )
    wait_until_stopped(home, 3)
    verb(home, "certificate", "--switch")
    terminal.send("n")
    wait_for_line(terminal, STOP + 2)
    assert [rank["state"] for rank in attach_list(home)] == ["stopped"] * 3

    broker.kill()
    terminal.wait_for("broker gone")
    terminal.send("n")
    broker.restart()
    assert broker.rendezvous["fingerprint"] == second
    wait_for_line(terminal, STOP + 3)
    # A rank that was given the old fingerprint alone stays away: for it that peer is no broker of its own.
    assert {rank["pid"] for rank in wait_until_stopped(home, 2)} == {by_home.pid, both.pid}
    let_finish(terminal, by_home)
    assert attach(home, "continue", "all", "-y").returncode == 0
    assert both.wait() == 0
    one.kill()


def test_an_authority_and_a_hosts_name_are_all_that_a_rank_and_a_terminal_need(
    processes: Processes, home: Path, tmp_path: Path, open_terminal: OpenTerminal
) -> None:
    authority = Authority(tmp_path)
    broker = running_broker(processes, home, *authority.issue("own", "localhost"))
    nowhere = {"DBG_HOME": str(tmp_path / "none"), "DBG_CA": str(authority.path)}
    named = {**nowhere, "DBG_BROKER": f"wss://localhost:{broker.port}"}
    (rank,) = start_ranks(processes, home, STRAIGHT, 1, env={**named, "DBG_TOKEN_FILE": str(home / "tokens" / "rank")})
    wait_until_stopped(home, 1)
    own = {**os.environ, **named, "DBG_TOKEN_FILE": str(home / "tokens" / "driver")}
    terminal = open_terminal([*attach_command(), ":0"], 24, 100, own)
    terminal.wait_for("Variables:")
    # The certificate is renewed in place; its fingerprint is nowhere, so nobody minds.
    before = broker.rendezvous["fingerprint"]
    authority.issue("own", "localhost")
    broker.kill()
    broker.restart()
    assert broker.rendezvous["fingerprint"] != before
    terminal.send("nn")
    wait_for_line(terminal, STOP + 2)
    let_finish(terminal, rank)

    # The broker is reached there, but is not that host.
    other = Authority(tmp_path, "other")
    for changes in ({"DBG_BROKER": f"wss://127.0.0.1:{broker.port}"}, {"DBG_CA": str(other.path)}):
        refused = run_command([*attach_command(), "list"], {**own, **changes}, seconds(60))
        assert refused.returncode == 5
        assert "DBG_CA does not vouch for the certificate at" in refused.stderr


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give this host a directory for sockets; their paths have to be short."""
    path = tempfile.mkdtemp(prefix="dbg-run-")
    monkeypatch.setenv("XDG_RUNTIME_DIR", path)
    yield Path(path)
    shutil.rmtree(path, ignore_errors=True)


SPY = """\
import json, os, re, sys
from pathlib import Path
from dbg_agent import set_trace
from dbg_dial.memory import ask_memory
home = Path(os.environ["DBG_HOME"])
seen = [path.read_text(errors="replace") for path in home.rglob("*") if path.is_file() and path.suffix != ".py"]
found = sorted({text for one in seen for text in re.findall(r"[A-Za-z0-9_.-]{16,}", one)})
print(json.dumps({"found": found, "told": ask_memory(str(home), os.environ)}), flush=True)
set_trace()
"""


def test_a_rank_of_another_host_drives_nothing_and_a_session_outlives_the_broker_with_its_token(
    processes: Processes, home: Path, runtime: Path, open_terminal: OpenTerminal
) -> None:
    broker = running_broker(processes, home, "--driver-token", "memory")
    with tempfile.TemporaryDirectory(prefix="dbg-run-") as elsewhere:
        script = SPY + "total = 0\ntotal += 1\n"
        (rank,) = start_ranks(processes, home, script, 1, env={"XDG_RUNTIME_DIR": elsewhere})
        rank.wait_for_output(r"^\{.*\n")
        terminal = sit_in_pudb(open_terminal, "wait", ":0", "--for", f"{seconds(60):g}")
        report: dict[str, Any] = json.loads(rank.text().splitlines()[0])
        assert report["told"] is None
        assert broker.rendezvous["tokens"]["rank"] in report["found"]
        own = {**os.environ, "DBG_HOME": str(home)}
        for text in report["found"]:
            assert run_command([*attach_command(), "list"], {**own, "DBG_TOKEN": text}, seconds(60)).returncode == 5, (
                text
            )
        broker.kill()
        terminal.wait_for("broker gone")
        broker.restart()
        terminal.send("c")
        assert terminal.exit_status() == 7
        assert rank.wait() == 0
