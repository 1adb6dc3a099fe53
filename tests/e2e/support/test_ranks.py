"""The tests' broker and ranks are real: ranks are listed, stop, and are listed again after the broker's death."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, attach_list, start_ranks, wait_until_stopped
from tests.support.time_unit import seconds

SCRIPT = """
import dbg_agent
dbg_agent.set_trace()
print("went on", flush=True)
"""


def test_ranks_stop_survive_a_restart_of_the_broker_and_go_on(processes: Processes, home: Path) -> None:
    broker = running_broker(processes, home)
    ranks = start_ranks(processes, home, SCRIPT, 2)
    assert sorted(rank["rank"] for rank in wait_until_stopped(home, 2)) == [0, 1]
    port, pid = broker.port, broker.process.pid
    broker.kill()
    broker.restart()
    assert (broker.port, broker.process.pid == pid) == (port, False)
    wait_until_stopped(home, 2, seconds(40))
    assert attach(home, "continue", "all").returncode == 0
    for rank in ranks:
        assert rank.wait() == 0
        assert rank.text() == "went on\n"


def test_too_few_stopped_ranks_are_reported_with_what_there_is(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    assert attach_list(home) == []
    with pytest.raises(AssertionError, match="never saw 1 stopped ranks: no rank at all"):
        wait_until_stopped(home, 1, 0)


def elsewhere(command: Sequence[str]) -> list[str]:
    """Return a command as it is started on another host, here on this one."""
    return ["env", *command]


def test_ranks_are_waited_for_from_another_host(processes: Processes, home: Path) -> None:
    with pytest.raises(AssertionError, match="does not list its ranks on the other host"):
        wait_until_stopped(home, 1, wrap=elsewhere)
    broker = running_broker(processes, home)
    start_ranks(processes, home, SCRIPT, 1)
    assert [rank["rank"] for rank in wait_until_stopped(home, 1, wrap=elsewhere)] == [0]
    broker.suspend()
    with pytest.raises(AssertionError, match="never saw 2 stopped ranks: no rank at all"):
        wait_until_stopped(home, 2, 1, wrap=elsewhere)
    broker.resume()
