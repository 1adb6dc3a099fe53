"""An impostor takes the broker's port: no rank, terminal or command sends it a token or a byte of a session."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker, running_broker
from tests.support.impostor import Impostor, Kind, is_at_most_a_hello
from tests.support.processes import Processes, run_command
from tests.support.pudb_terminal import line_after_all_keys, sit_in_pudb, wait_for_line
from tests.support.ranks import attach, start_ranks, wait_until_stopped
from tests.support.straight import LINES, STOP, STRAIGHT
from tests.support.time_unit import seconds

KINDS = pytest.mark.parametrize("kind", ["closes", "http", "tls"])

PASSING_BY = """\
from dbg_agent import set_trace
set_trace(connect_timeout=5)
print("done")
"""


def ask_broker(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``dbg-broker`` until it ends."""
    return run_command([sys.executable, "-m", "dbg_broker", *arguments], os.environ, seconds(30))


def assert_nothing_told(impostor: Impostor, kind: Kind, broker: RunningBroker) -> None:
    """Fail if the impostor has received a token or more than the first message of TLS."""
    heard = impostor.heard()
    for secret in broker.tokens.values():
        assert not any(secret.encode() in said for said in heard)
    if kind == "tls":
        assert heard == [b""] * len(heard)
    else:
        assert [said for said in heard if not is_at_most_a_hello(said)] == []


@KINDS
def test_rank_and_terminal_tell_an_impostor_nothing_and_go_on_with_the_real_broker(
    kind: Kind, *, broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    (rank,) = start_ranks(processes, home, STRAIGHT, 1)
    wait_until_stopped(home, 1)
    terminal = sit_in_pudb(open_terminal, ":0")
    terminal.send("nnn")
    wait_for_line(terminal, STOP + 3)
    broker.kill()
    with Impostor(broker.port, kind) as impostor:
        terminal.wait_for("broker gone")
        terminal.send("nnnn")
        impostor.wait_for_more(3)
        # Rank and terminal call one at a time, so that each is known to have called; one call may have been under way.
        terminal.signal(signal.SIGSTOP)
        impostor.wait_for_more(3)
        rank.signal(signal.SIGSTOP)
        terminal.signal(signal.SIGCONT)
        impostor.wait_for_more(3)
        rank.signal(signal.SIGCONT)
    assert_nothing_told(impostor, kind, broker)

    broker.restart()
    wait_for_line(terminal, STOP + 7)
    assert line_after_all_keys(terminal, home) == STOP + 7
    terminal.send("c")
    assert terminal.exit_status() == 7
    assert rank.wait() == 0
    assert rank.text().splitlines()[-1] == f"total {LINES}"


@KINDS
def test_everything_goes_on_with_the_real_broker_on_another_port_while_the_impostor_stays(
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
    assert_nothing_told(impostor, kind, second)


@KINDS
def test_whoever_comes_new_tells_an_impostor_nothing_and_says_so_in_one_line(
    kind: Kind, broker: RunningBroker, processes: Processes, home: Path
) -> None:
    broker.kill()
    with Impostor(broker.port, kind) as impostor:
        (rank,) = start_ranks(processes, home, PASSING_BY, 1)
        assert rank.wait() == 0
        assert rank.text() == "done\n"
        results = [
            attach(home, "list"),
            attach(home, "continue", "all", "-y"),
            ask_broker("status"),
            ask_broker("check"),
        ]
    errors = [rank.text("stderr"), *(result.stderr for result in results)]
    assert [error.count("\n") for error in errors] == [1] * len(errors), errors
    assert [error for error in errors if str(broker.port) not in error] == []
    assert {result.returncode for result in results} <= {4, 5}
    assert impostor.heard(), "nobody called the impostor"
    assert_nothing_told(impostor, kind, broker)
