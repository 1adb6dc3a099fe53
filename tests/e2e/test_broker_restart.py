"""The broker and the network may go at any moment: ranks and terminals come back by themselves to the same stop."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker
from tests.support.fake_brokers import Impostor, Kind, is_at_most_a_hello
from tests.support.processes import Processes
from tests.support.pudb_terminal import line_after_all_keys, sit_in_pudb, wait_for_line
from tests.support.ranks import start_ranks, wait_until_stopped
from tests.support.straight import LINES, STOP, STRAIGHT

KINDS = pytest.mark.parametrize("kind", ["http", "tls"])


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
