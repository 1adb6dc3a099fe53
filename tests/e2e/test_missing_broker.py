"""Training goes on with a faulty broker or none; ranks and terminals come back by themselves to the same stop."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker, running_broker
from tests.support.fake_brokers import Impostor, Kind, is_at_most_a_hello
from tests.support.processes import Processes
from tests.support.pudb_terminal import line_after_all_keys, sit_in_pudb, wait_for_line
from tests.support.ranks import ask, attach, start_ranks, wait_until, wait_until_stopped
from tests.support.straight import LINES, STOP, STRAIGHT


def test_a_broker_that_starts_later_is_found(processes: Processes, home: Path) -> None:
    gate = home / "gate"
    os.mkfifo(gate)
    script = f"""\
from dbg_agent import set_trace
set_trace()
print("before", flush=True)
open({str(gate)!r}).close()
set_trace()
print("after")
"""
    (rank,) = start_ranks(processes, home, script, 1, env={"DBG_CONNECT_TIMEOUT": "0.1"})
    rank.wait_for_output("before")
    running_broker(processes, home)
    wait_until(home, bool, "the rank")
    # A listed rank may not know yet that it is; one that answers does.
    assert ask(home, "where", "0")["answered"] == 1
    gate.write_bytes(b"")
    wait_until_stopped(home, 1)
    assert attach(home, "continue", "0").returncode == 0
    assert rank.wait() == 0
    assert rank.text() == "before\nafter\n"
    assert rank.text("stderr").count("\n") == 2, "one line without a broker, one about the stop"


KINDS = pytest.mark.parametrize("kind", ["http", "tls"])


def assert_got_no_secret(impostor: Impostor, kind: Kind, broker: RunningBroker) -> None:
    """Fail if the impostor has received a token or more than the first message of TLS."""
    heard = impostor.heard()
    for secret in broker.tokens.values():
        assert not any(secret.encode() in data for data in heard)
    if kind == "tls":
        assert heard == [b""] * len(heard)
    else:
        assert [data for data in heard if not is_at_most_a_hello(data)] == []


@KINDS
def test_rank_and_terminal_send_an_impostor_no_secret_and_return_to_the_real_broker(
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
    assert_got_no_secret(impostor, kind, broker)

    broker.restart()
    wait_for_line(terminal, STOP + 7)
    assert line_after_all_keys(terminal, home) == STOP + 7
    terminal.send("c")
    assert terminal.exit_status() == 7
    assert rank.wait() == 0
    assert rank.text().splitlines()[-1] == f"total {LINES}"
