"""Brokers that are killed, upgraded or suspended, and NATS that goes away: ranks, stops and keys go on."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker
from tests.support.cluster import STOPPED, Brokers, let_all_go, seat, stopped_everywhere
from tests.support.nats_servers import NatsServers
from tests.support.processes import Processes
from tests.support.proxy import Proxy
from tests.support.pudb_terminal import DRAWN, line_after_all_keys, line_shown, wait_for_line
from tests.support.ranks import (
    ask,
    attach_command,
    texts,
    wait_until_states,
)
from tests.support.serving import run
from tests.support.straight import LINES, STOP, STRAIGHT


def test_a_cluster_recovers_when_nats_returns_without_data(brokers: Brokers, nats: NatsServers) -> None:
    ranks = brokers.start_one_at_each(STOPPED, 2)
    stopped_everywhere(brokers, 2)
    nats.stop()
    for broker in brokers:
        broker.process.wait_for_output("NATS: disconnected", stream="stderr")
    assert brokers.status(brokers[0])["cluster"]["nats_silent"] > 0
    # Terminals go on with all brokers that they know.
    assert texts(ask(brokers.homes[0], "eval", "all", "n")) == {"0-1": "42"}
    nats.start()
    brokers.until(lambda: brokers.status(brokers[0])["cluster"]["nats_silent"] is None)
    # Who is there is known again: ranks whose broker is killed move, and that is seen everywhere.
    brokers[1].kill()
    stopped_everywhere(brokers, 2)
    let_all_go(brokers[2], ranks)


def test_no_key_is_applied_twice_when_two_brokers_have_one_rank(brokers: Brokers, open_terminal: OpenTerminal) -> None:
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
    brokers[0].process.wait_for_output("is lost|moved to another broker", stream="stderr")
    wait_until_states(brokers.homes[0], {0: "stopped"})
    terminal.send("n" * 5)
    wait_for_line(terminal, STOP + 12)
    assert texts(ask(brokers.homes[0], "eval", "0", "n")) == {"0": "10"}
    terminal.send("c")
    assert terminal.exit_status() == 7
    assert rank.wait() == 0
    assert rank.text().splitlines()[-1] == f"total {LINES}"


def test_a_broker_cut_off_from_nats_continues_and_rejoins_the_others(processes: Processes, tmp_path: Path) -> None:
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
        one.process.wait_for_output("NATS: disconnected", stream="stderr")
        # The other one takes it for gone; the rank stays where it is.
        two.process.wait_for_output("is gone", stream="stderr")
        wait_until_states(one.home, {0: "stopped"})
        assert texts(ask(one.home, "eval", "all", "n")) == {"0": "42"}
        way.mend()
        stopped_everywhere(brokers, 1)
        assert texts(ask(two.home, "eval", "all", "n")) == {"0": "42"}
        let_all_go(two, ranks)


@pytest.mark.parametrize("killed", ["the rank's", "the terminal's"])
def test_no_key_is_lost_when_a_broker_is_killed(killed: str, brokers: Brokers, open_terminal: OpenTerminal) -> None:
    rank = brokers.start_rank(0, STRAIGHT)
    wait_until_states(brokers[1].home, {0: "stopped"})
    terminal = seat(open_terminal, brokers[1], "0")
    terminal.send("n" * 40)
    terminal.wait_for(lambda shown: line_shown(shown) >= STOP + 3)
    brokers[0 if killed == "the rank's" else 1].kill()
    terminal.send("n" * 30)
    wait_for_line(terminal, STOP + 70)
    assert line_after_all_keys(terminal, brokers[2].home) == STOP + 70
    assert "discarded" not in terminal.output.decode(errors="replace")
    terminal.send("c")
    assert terminal.exit_status() == 7
    assert rank.wait() == 0
    assert rank.text().splitlines()[-1] == f"total {LINES}"


def test_a_suspended_broker_does_not_delay_the_others(brokers: Brokers, open_terminal: OpenTerminal) -> None:
    brokers.start_rank(0, STRAIGHT)
    wait_until_states(brokers[1].home, {0: "stopped"})
    snapshots = seat(open_terminal, brokers[2], "0", "--watch")
    types = seat(open_terminal, brokers[1], "0")
    brokers[2].suspend()
    try:
        for typed in range(1, 6):
            types.send("n")
            wait_for_line(types, STOP + typed)
        assert ask(brokers[1].home, "eval", "0", "n")
    finally:
        brokers[2].resume()
    snapshots.wait_for("n: 4")


def named(broker: RunningBroker) -> set[str]:
    """Return the brokers that the home of one names."""
    found: dict[str, Any] = broker.rendezvous
    return {found["url"], *(other["url"] for other in found.get("brokers", []))}


def test_each_home_names_all_brokers_and_drops_an_ended_one(brokers: Brokers) -> None:
    one, two, three = brokers
    all_urls = {broker.url for broker in brokers}
    for broker in brokers:
        brokers.until(lambda broker=broker: named(broker) == all_urls)  # type: ignore[misc]
    name = brokers.name_of(three)
    three.process.signal(signal.SIGTERM)
    assert three.process.wait() == 0
    for broker in (one, two):
        broker.process.wait_for_output(f"broker {name} is gone", stream="stderr")
        brokers.until(lambda broker=broker: named(broker) == all_urls - {three.url})  # type: ignore[misc]
    # Its own home leads new ranks to the others.
    assert named(three) == all_urls
    asked = run(three.home, "status")
    assert asked.returncode == 4
    assert one.url in asked.stdout
    made = run(three.home, "token", "--name", "alice")
    assert made.returncode == 0
    assert made.stderr != ""
    noted = [json.loads(line) for line in run(three.home, "log", "--json").stdout.splitlines()]
    assert {entry["broker"] for entry in noted if entry["what"] in ("start", "end")} == {name}
    brokers.restart(three)
