"""``serve --max-lease``: a stop ends by itself once nobody has typed for so long, with or without a broker."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Processes
from tests.support.pudb_terminal import sit_in_pudb
from tests.support.ranks import attach_list, start_ranks, wait_until_states, wait_until_stopped
from tests.support.time_unit import seconds

LEASE = f"{seconds(4):g}s"
ENDS = re.compile(r"goes on: nobody typed at this stop for .*\(--max-lease\)")

PROGRAM = """\
import sys
import dbg_agent
dbg_agent.install(post_mortem=True, lease=600)
dbg_agent.set_trace()
print("went on", flush=True)
raise ValueError("bad")
"""

HELD = """\
import dbg_agent
dbg_agent.set_trace(ranks=0)
print("went on", flush=True)
"""


def told(path: Path) -> list[dict[str, Any]]:
    """Return the events so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """Return the file that the broker's command writes to, which stands beside it."""
    script = tmp_path / "notify"
    script.write_text('#!/bin/sh\ncat >>"$0.events"\n')
    script.chmod(0o700)
    return tmp_path / "notify.events"


@pytest.fixture
def broker(processes: Processes, home: Path, events: Path) -> RunningBroker:
    command = str(events.with_suffix(""))
    return running_broker(processes, home, "--max-lease", LEASE, "--on-event", command)


def test_nobody_comes_to_a_stop_nor_to_a_crash(
    broker: RunningBroker, processes: Processes, home: Path, events: Path
) -> None:
    (rank,) = start_ranks(processes, home, PROGRAM, 1)
    wait_until_stopped(home, 1)
    # The list tells of the lease once the broker has the rank's next report.
    details = (listed["detail"] for _ in range(30) for listed in attach_list(home))
    assert any(re.fullmatch(r"unless somebody types, it goes on in \d+ s", detail) for detail in details)
    rank.wait_for_output("went on")
    assert rank.wait() == 1
    assert len(ENDS.findall(rank.text("stderr"))) == 2
    broker.process.terminate()
    broker.process.wait()
    kinds = [event["event"] for event in told(events)]
    assert kinds.count("stop") == 1
    assert kinds.count("crash") == 1
    assert "lease" in kinds
    (crash,) = (event for event in told(events) if event["event"] == "crash")
    assert crash["sentence"].endswith("train.py:6 in <module>: ValueError: bad".replace("train.py", "rank_script.py"))


def test_a_terminal_that_types_no_more_is_told_and_sees_the_stop_end(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    (rank,) = start_ranks(processes, home, PROGRAM, 1)
    wait_until_stopped(home, 1)
    terminal = sit_in_pudb(open_terminal, ":0")
    rank.wait_for_output("went on")
    assert ENDS.search(rank.text("stderr"))
    terminal.wait_for("ValueError")
    terminal.send("q")


def test_a_broker_that_dies_lifts_nothing_and_held_ranks_follow(
    broker: RunningBroker, processes: Processes, home: Path
) -> None:
    ranks = start_ranks(processes, home, HELD, 2)
    wait_until_states(home, {0: "stopped", 1: "held"})
    broker.kill()
    assert [rank.wait() for rank in ranks] == [0, 0]
    assert ENDS.search(ranks[0].text("stderr"))
    assert "goes on: the broker has been gone for " in ranks[1].text("stderr")
