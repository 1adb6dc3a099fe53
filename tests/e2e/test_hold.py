"""Chosen ranks stop, and the other ranks wait for them outside of collectives, as long as the stops last."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.smoke.test_hold_and_crash import JOB, ONCE, wait_until_kept
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Processes
from tests.support.ranks import (
    ask,
    attach,
    start_ranks,
    states,
    texts,
    wait_until,
    wait_until_states,
    wait_until_stopped,
)
from tests.support.time_unit import seconds


def test_the_release_command_releases_held_ranks(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, ONCE, 3)
    wait_until_states(home, {0: "stopped", 1: "held", 2: "held"})
    released = attach(home, "release", "held")
    assert released.returncode == 0, released.stderr
    assert [rank.wait() for rank in ranks[1:]] == [0, 0]
    wait_until_states(home, {0: "stopped"})
    assert attach(home, "continue", "0").returncode == 0
    assert ranks[0].wait() == 0


KEPT = {"CI": "", "DBG_LEASE": "600"}
"""Variables that keep crashed ranks, since ranks of test runs and CI jobs are not kept by default."""

FORKS = """\
from multiprocessing import get_context
child = get_context("fork").Process(target=fails)
child.start()
child.join()
sys.exit(child.exitcode)
"""

CRASHED = {0: "held", 1: "stopped", 2: "held"}


def test_the_reason_of_a_crash_is_readable_after_the_job_has_ended(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, JOB, 3)
    wait_until_kept(home, CRASHED)
    assert attach(home, "continue", "crashed").returncode == 0
    assert [rank.wait() for rank in ranks] == [0, 1, 0]
    ended = wait_until(
        home, lambda listed: states(listed) == dict.fromkeys(range(3), "exited"), "all exited", listing=["--all"]
    )
    assert [rank["exit"] for rank in ended if rank["rank"] == 1] == [1]
    assert "ValueError: bad batch 7" in attach(home, "list", "--all").stdout
    document = json.loads(attach(home, "where", "1", "--all", "--json").stdout)
    assert [frame["function"] for frame in document["groups"][0]["frames"]] == ["<module>", "step"]


@pytest.mark.parametrize(
    ("script", "status", "function"),
    [
        ("import threading\nthread = threading.Thread(target=fails)\nthread.start()\nthread.join()\n", 0, "fails"),
        (FORKS, 1, "fails"),
        ("try:\n    fails()\nexcept ValueError:\n    dbg_agent.post_mortem()\n", 0, "fails"),
        ("import asyncio\nasync def main():\n    fails()\nasyncio.run(main())\n", 1, "fails"),
    ],
    ids=["thread", "multiprocessing", "post_mortem", "asyncio"],
)
def test_a_crash_is_kept_wherever_it_was_raised(
    processes: Processes, home: Path, script: str, status: int, function: str
) -> None:
    running_broker(processes, home)
    head = (
        "import sys\nimport dbg_agent\ndbg_agent.install(post_mortem=True, lease=600)\n"
        "def fails():\n    local = 5\n    raise ValueError('here')\n"
    )
    (rank,) = start_ranks(processes, home, head + script, 1, env=KEPT)

    def crashed(listed: list[dict[str, object]]) -> bool:
        return [entry["reason"] for entry in listed if entry["state"] == "stopped"] == ["crash"]

    listed = wait_until(home, crashed, "a crash")
    (kept,) = [entry for entry in listed if entry["state"] == "stopped"]
    assert kept["where"]["function"] == function
    assert [*texts(ask(home, "eval", "crashed", "local")).values()] == ["5"]
    assert attach(home, "continue", "crashed").returncode == 0
    assert rank.wait(seconds(20)) == status


ENDS = re.compile(r"\(--max-lease\)")

LEASED = """\
import sys
import dbg_agent
dbg_agent.install(post_mortem=True, lease=600)
dbg_agent.set_trace()
print("went on", flush=True)
raise ValueError("bad")
"""


def events_in(path: Path) -> list[dict[str, Any]]:
    """Return the events so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_an_unattended_stop_and_an_unattended_crash_end_with_their_lease(
    leased_broker: RunningBroker, processes: Processes, home: Path, events: Path
) -> None:
    (rank,) = start_ranks(processes, home, LEASED, 1)
    wait_until_stopped(home, 1)
    # The list shows the lease once the broker has the rank's next report.
    wait_until(home, lambda listed: re.search(r" in \d+ s\b", listed[0]["detail"]) is not None, "the lease")
    rank.wait_for_output("went on")
    assert rank.wait() == 1
    assert len(ENDS.findall(rank.text("stderr"))) == 2
    leased_broker.process.terminate()
    leased_broker.process.wait()
    kinds = [event["event"] for event in events_in(events)]
    assert kinds.count("stop") == 1
    assert kinds.count("crash") == 1
    assert "lease" in kinds
    (crash,) = (event for event in events_in(events) if event["event"] == "crash")
    assert crash["sentence"].endswith("train.py:6 in <module>: ValueError: bad".replace("train.py", "rank_script.py"))


def test_the_other_ranks_print_a_line_and_continue_when_the_chosen_rank_dies(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, ONCE, 3)
    wait_until_states(home, {0: "stopped", 1: "held", 2: "held"})
    ranks[0].kill()
    for rank in ranks[1:]:
        rank.wait_for_output("continues: rank 0 has exited", stream="stderr")
        assert rank.wait() == 0
