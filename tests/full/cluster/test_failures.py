"""Brokers that are killed, upgraded or suspended, and NATS that goes away: ranks, stops and keys go on."""

from __future__ import annotations

import os
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.support.cluster import STOPPED, Brokers, let_all_go, stopped_everywhere
from tests.support.nats_servers import NatsServers
from tests.support.processes import Processes
from tests.support.proxy import Proxy
from tests.support.pudb_terminal import DRAWN, wait_for_line
from tests.support.ranks import (
    ask,
    attach,
    attach_command,
    attach_list,
    start_ranks,
    states,
    texts,
    wait_until_states,
)
from tests.support.straight import LINES, STOP, STRAIGHT


def test_nats_is_gone_for_a_while_and_comes_back_empty(brokers: Brokers, nats: NatsServers) -> None:
    ranks = brokers.start_one_at_each(STOPPED, 2)
    stopped_everywhere(brokers, 2)
    nats.stop()
    for broker in brokers:
        broker.process.wait_for_output("NATS ", stream="stderr")
    # What stands at one broker goes on, and the others' ranks are there, unanswered.
    wait_until_states(brokers.homes[0], {0: "stopped", 1: "unresponsive"})
    assert texts(ask(brokers.homes[0], "eval", "0", "n")) == {"0": "42"}
    said = brokers.status(brokers[0])["cluster"]
    assert said["nats_silent"] > 0
    asked = attach(brokers.homes[0], "eval", "1", "n", timeout=60.0)
    assert "NATS" in asked.stdout + asked.stderr
    nats.start()
    stopped_everywhere(brokers, 2)
    assert brokers.status(brokers[0])["cluster"]["nats_silent"] is None
    # Who owns which rank is known again: one whose broker is killed moves, and that is seen everywhere.
    brokers[1].kill()
    stopped_everywhere(brokers, 2)
    let_all_go(brokers[2], ranks)


def test_nothing_is_felt_when_one_server_of_nats_dies(
    brokers: Brokers, nats: NatsServers, processes: Processes
) -> None:
    ranks = start_ranks(processes, brokers.homes[0], STOPPED, 3)
    stopped_everywhere(brokers, 3)
    for number in range(nats.count):
        nats.kill(number)
        for broker in brokers:
            assert texts(ask(broker.home, "eval", "all", "n")) == {"0-2": "42"}
            assert set(states(attach_list(broker.home)).values()) == {"stopped"}
        nats.start()
    for broker in brokers:
        log = broker.process.text("stderr")
        assert " has gone" not in log
    let_all_go(brokers[1], ranks)


def test_two_brokers_have_one_rank_and_nobody_types_twice(brokers: Brokers, open_terminal: OpenTerminal) -> None:
    rank = brokers.start_rank(0, STRAIGHT)
    stopped_everywhere(brokers, 1)
    terminal = open_terminal(attach_command("0"), 24, 100, env={**os.environ, "DBG_HOME": str(brokers.homes[0])})
    terminal.wait_for(DRAWN)
    terminal.send("n" * 3)
    wait_for_line(terminal, STOP + 3)
    brokers[0].suspend()
    terminal.send("n" * 4)
    # Rank and terminal go to another broker, each by itself, and the keys go on from where they were.
    wait_for_line(terminal, STOP + 7)
    brokers[0].resume()
    moved = r" at the broker \S+|the rank \S+"
    brokers[0].process.wait_for_output(moved, stream="stderr")
    wait_until_states(brokers.homes[0], {0: "stopped"})
    terminal.send("n" * 5)
    wait_for_line(terminal, STOP + 12)
    assert texts(ask(brokers.homes[0], "eval", "0", "n")) == {"0": "10"}
    terminal.send("c")
    assert terminal.exit_status() == 7
    assert rank.wait() == 0
    assert rank.text().splitlines()[-1] == f"total {LINES}"


def test_a_broker_that_alone_is_cut_off_from_nats_goes_on_and_joins_the_others_again(
    processes: Processes, tmp_path: Path
) -> None:
    (tmp_path / "nats").mkdir()
    nats = NatsServers(processes, tmp_path / "nats", 1)
    nats.start()
    brokers = Brokers(processes, nats, tmp_path, tmp_path / "tokens")
    with Proxy(("127.0.0.1", nats.ports[0])) as way:
        one = brokers.add("--cluster", f"nats://127.0.0.1:{way.port}")
        two = brokers.add()
        ranks = [brokers.start_rank(0, STOPPED)]
        stopped_everywhere(brokers, 1)
        way.cut()
        one.process.wait_for_output("NATS ", stream="stderr")
        # The other one takes it for gone; the rank stays where it is, and is lost for those who can't reach it.
        wait_until_states(two.home, {0: "lost"}, timeout=60.0)
        wait_until_states(one.home, {0: "stopped"})
        assert texts(ask(one.home, "eval", "all", "n")) == {"0": "42"}
        way.mend()
        stopped_everywhere(brokers, 1)
        assert texts(ask(two.home, "eval", "all", "n")) == {"0": "42"}
        let_all_go(two, ranks)
