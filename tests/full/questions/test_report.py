"""``dbg-attach report`` about real ranks, one of which was killed and one of which never came."""

from __future__ import annotations

import platform
import signal
from pathlib import Path

from dbg_wire.version import RELEASE
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, start_ranks, wait_until, wait_until_states
from tests.support.tokens import written_tokens

CALLING = """\
import dbg_agent
dbg_agent.install()
dbg_agent.set_trace()
"""


def test_it_tells_who_is_where_who_died_who_never_came_and_no_secret(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, CALLING, 3, env={"WORLD_SIZE": "4"})
    wait_until_states(home, dict.fromkeys(range(3), "stopped"))
    ranks[2].signal(signal.SIGKILL)
    # The guard tells which signal it was, a moment after the broker has seen the end of the process.
    wait_until(
        home, lambda listed: any(one["exit"] == -signal.SIGKILL for one in listed), "the signal", listing=["--all"]
    )
    path = home / "report.txt"

    done = attach(home, "report", "-o", str(path))

    text = path.read_text()
    assert (done.returncode, done.stdout) == (0, "")
    assert f"  ranks     agent {RELEASE}, Python {platform.python_version()}: all 3\n" in text
    assert "never connected: 3\n" in text
    assert ":2 was killed by SIGKILL" in text
    assert "where: 2 of 2 ranks answered, 1 stack" in text
    assert not any(token in text for token in written_tokens(home).values())
    assert attach(home, "continue", "all").returncode == 0
    assert [rank.wait() for rank in ranks[:2]] == [0, 0]
