"""The broker and the network may go at any moment: ranks and terminals come back by themselves to the same stop."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.e2e.test_missing_broker import KINDS, assert_got_no_secret
from tests.smoke.test_broker import let_finish, start_one
from tests.support.broker import RunningBroker, running_broker
from tests.support.certificates import Authority
from tests.support.fake_brokers import Impostor, Kind
from tests.support.processes import Processes, run_command
from tests.support.pudb_terminal import DRAWN, line_after_all_keys, line_shown, rows_of_rank, sit_in_pudb, wait_for_line
from tests.support.ranks import attach_command, start_ranks, wait_until_stopped
from tests.support.straight import STOP, STRAIGHT
from tests.support.time_unit import seconds

pytestmark = pytest.mark.timeout(seconds(120))


def test_a_broker_killed_during_output_leaves_no_broken_screen(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start_one(processes, home)
    rows, cols = 60, 160
    terminal = sit_in_pudb(open_terminal, ":0", rows=rows, cols=cols)
    for _ in range(2):
        # Each key redraws the whole source window; the terminal does not read meanwhile, so output fills every queue.
        terminal.send(b"Gg" * 40 + b"H")
        broker.kill()
        terminal.wait_for("broker gone")
        broker.restart()
        terminal.wait_for(line_shown)
    terminal.send("H")
    assert line_after_all_keys(terminal, home, seconds(60)) == STOP
    terminal.wait_for(lambda terminal: terminal.screen[: rows - 1] == padded(rows_of_rank(home, ":0"), rows - 1))
    assert DRAWN in "\n".join(terminal.screen)
    let_finish(terminal, rank)


def padded(rows: list[str], count: int) -> list[str]:
    """Return ``rows`` with the empty rows that a print leaves out at the end."""
    return rows + [""] * (count - len(rows))


@KINDS
def test_a_session_continues_with_the_real_broker_on_another_port_despite_an_impostor(
    kind: Kind, *, broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    (rank,) = start_ranks(processes, home, STRAIGHT, 1)
    wait_until_stopped(home, 1)
    terminal = sit_in_pudb(open_terminal, ":0")
    broker.kill()
    with Impostor(broker.port, kind) as impostor:
        terminal.wait_for("broker gone")
        terminal.send("nn")
        impostor.wait_for_more(4)
        # The second broker has the same home, and first asks whether the broker in broker.json is still there.
        second = running_broker(processes, home)
        wait_for_line(terminal, STOP + 2)
        terminal.send("c")
        assert terminal.exit_status() == 7
        assert rank.wait() == 0
    assert_got_no_secret(impostor, kind, second)


def test_a_rank_and_a_terminal_connect_with_only_an_authority_and_a_host_name(
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
        assert "DBG_CA" in refused.stderr
