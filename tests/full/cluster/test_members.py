"""Three real brokers and three real servers of NATS: who is there."""

from __future__ import annotations

import json
import signal
from typing import Any

from tests.support.broker import RunningBroker
from tests.support.cluster import Brokers
from tests.support.serving import run


def named(broker: RunningBroker) -> set[str]:
    """Return the brokers that the home of one names."""
    found: dict[str, Any] = broker.rendezvous
    return {found["url"], *(other["url"] for other in found.get("brokers", []))}


def test_each_home_names_all_brokers_and_a_broker_that_ends_is_named_no_more(brokers: Brokers) -> None:
    one, two, three = brokers
    everybody = {broker.url for broker in brokers}
    for broker in brokers:
        brokers.until(lambda broker=broker: named(broker) == everybody)  # type: ignore[misc]
    name = brokers.name_of(three)
    three.process.signal(signal.SIGTERM)
    assert three.process.wait() == 0
    for broker in (one, two):
        broker.process.wait_for_output(f"the broker {name} has gone", stream="stderr")
        brokers.until(lambda broker=broker: named(broker) == everybody - {three.url})  # type: ignore[misc]
    # Its own home leads new ranks to the others.
    assert named(three) == everybody
    asked = run(three.home, "status")
    assert asked.returncode == 4
    assert one.url in asked.stdout
    made = run(three.home, "token", "--name", "alice")
    assert made.returncode == 0
    assert made.stderr != ""
    noted = [json.loads(line) for line in run(three.home, "log", "--json").stdout.splitlines()]
    assert {entry["broker"] for entry in noted if entry["what"] in ("start", "end")} == {name}
    brokers.restart(three)
