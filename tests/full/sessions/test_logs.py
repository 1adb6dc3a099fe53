"""What the logs of broker and rank hold after a session, and what they must not hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.test_logs import SCRIPT, session
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, start_ranks, wait_until_stopped


@pytest.mark.parametrize(("verbose", "levels"), [((), set()), (("-v",), {"INFO"})])
def test_the_broker_logs_no_more_than_it_is_asked_to(
    verbose: tuple[str, ...], levels: set[str], processes: Processes, home: Path, tmp_path: Path
) -> None:
    of_broker, _ = session(processes, home, tmp_path, *verbose)
    assert set(re.findall(r" (DEBUG|INFO|WARNING|ERROR) ", of_broker)) == levels


def test_a_log_that_can_not_be_written_costs_one_line(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    log = tmp_path / "link"
    log.symlink_to(tmp_path / "aim")
    [rank] = start_ranks(processes, home, SCRIPT, 1, env={"DBG_LOG": str(log)})
    wait_until_stopped(home, 1)
    attach(home, "continue", "0")
    assert rank.wait() == 0
    assert len(re.findall(rf"(?m)^dbg-agent: DBG_LOG: .*{log}.*$", rank.text("stderr"))) == 1
    assert not (tmp_path / "aim").exists()
