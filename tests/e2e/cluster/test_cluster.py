"""Three real brokers act as one: any terminal reaches any rank, and a broker may end."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack

import pytest

from tests.conftest import OpenTerminal
from tests.full.broker.test_tokens import REVOKED, terminal
from tests.support.blocking_websocket import BlockingWebSocket
from tests.support.cluster import (
    STOPPED,
    Brokers,
    admits,
    issue,
    let_all_go,
    owners,
    seat,
    stopped_everywhere,
)
from tests.support.processes import Processes
from tests.support.pudb_terminal import wait_for_line
from tests.support.ranks import ask, attach, attach_list, start_ranks, texts, wait_until_states
from tests.support.serving import run
from tests.support.straight import LINES, STOP, STRAIGHT
from tests.support.time_unit import seconds

COUNT = 6


def test_any_terminal_lists_asks_steps_and_continues_ranks_of_all_brokers(
    brokers: Brokers, open_terminal: OpenTerminal
) -> None:
    ranks = brokers.start_one_at_each(STRAIGHT)
    for broker in brokers:
        listed = wait_until_states(broker.home, dict.fromkeys(range(3), "stopped"))
        assert {rank["where"]["line"] for rank in listed} == {STOP}
    terminal = seat(open_terminal, brokers[1], "0")
    terminal.send("nnn")
    wait_for_line(terminal, STOP + 3)
    terminal.wait_for("n: 2")
    assert texts(ask(brokers[2].home, "eval", "all", "n")) == {"0": "2", "1-2": "0"}
    (driven,) = [rank for rank in attach_list(brokers[2].home) if rank["rank"] == 0]
    assert driven["driver"] is not None
    where = attach(brokers[0].home, "where", "all")
    assert where.returncode == 0
    assert "0" in where.stdout
    taken = seat(open_terminal, brokers[2], "0", "--take")
    taken.send("n")
    wait_for_line(taken, STOP + 4)
    taken.send("c")
    assert taken.exit_status() == 7
    assert terminal.exit_status() == 7
    assert attach(brokers[0].home, "continue", "all", "-y").returncode == 0
    assert [rank.wait() for rank in ranks] == [0, 0, 0]
    assert ranks[0].text().splitlines()[-1] == f"total {LINES}"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "upgraded"])
def test_ranks_of_a_broker_that_ends_connect_to_the_others(
    number: signal.Signals, brokers: Brokers, processes: Processes
) -> None:
    ranks = start_ranks(processes, brokers.homes[0], STOPPED, COUNT)
    stopped_everywhere(brokers, COUNT)
    before = owners(brokers)
    ended = before[0]
    its_own = {rank for rank, broker in before.items() if broker is ended}
    ended.process.signal(number)
    assert ended.process.wait() == (0 if number is signal.SIGTERM else -number)
    # The others list a killed broker's ranks as they were, until they miss its heartbeat.
    brokers.until(lambda: ended not in owners(brokers).values())
    stopped_everywhere(brokers, COUNT)
    after = owners(brokers)
    assert {rank for rank in after if after[rank] is not before[rank]} == its_own
    brokers.restart(ended)
    stopped_everywhere(brokers, COUNT)
    let_all_go(ended, ranks)


def test_a_token_is_valid_at_all_brokers_and_any_of_them_revokes_it(brokers: Brokers) -> None:
    token = issue(brokers[0], "alice")
    began = time.monotonic()
    for broker in brokers[1:]:
        brokers.until(lambda broker=broker: admits(broker, token))  # type: ignore[misc]
    assert time.monotonic() - began < seconds(2)
    with ExitStack() as opened:
        terminals: list[BlockingWebSocket] = [opened.enter_context(terminal(broker.url, token)) for broker in brokers]
        revoked = run(brokers[2].home, "token", "--revoke", "alice")
        assert revoked.returncode == 0, revoked.stderr
        assert [one.closed() for one in terminals] == [REVOKED] * 3
    assert not any(admits(broker, token) for broker in brokers)
    # Each home knows of it, for a start at which NATS has nothing.
    assert run(brokers[1].home, "token", "--revoke", "alice").returncode == 2
    brokers[0].process.kill()
    brokers[0].process.wait()
    brokers.restart(brokers[0])
    assert not admits(brokers[0], token)
