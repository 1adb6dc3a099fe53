"""A whole job stops at once: every rank is listed, each can be attached to, and all end well."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.pudb_terminal import sit_in_pudb
from tests.support.ranks import ask, attach, start_ranks, texts, wait_until_stopped
from tests.support.sessions import detach
from tests.support.time_unit import seconds

RANKS = 24
"""As many as two cores start within seconds; a thousand light ranks are in other tests."""
LISTED_WITHIN = 40
"""Seconds from the start of the last rank until all are listed."""

SCRIPT = """\
import os
from dbg_agent import set_trace

def step(rank):
    doubled = 2 * rank
    set_trace()
    return doubled

assert step(int(os.environ["RANK"])) == 2 * int(os.environ["RANK"])
"""


@pytest.mark.timeout(300)
def test_many_ranks_at_the_same_stop_at_once(processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
    running_broker(processes, home)
    # Two cores need a long time to start so many processes, and each rank has to wait for the broker meanwhile.
    ranks = start_ranks(processes, home, SCRIPT, RANKS, env={"DBG_CONNECT_TIMEOUT": str(seconds(60))})
    wait_until_stopped(home, RANKS, seconds(LISTED_WITHIN))

    # One table has the answers of all ranks, although they differ.
    asked = ask(home, "eval", "all", "doubled // 30")
    assert (asked["asked"], asked["answered"]) == (RANKS, RANKS)
    assert texts(asked) == {"0-14": "0", "15-23": "1"}
    (stack,) = ask(home, "where", "all")["groups"]
    assert (stack["ranks"], [frame["function"] for frame in stack["frames"]]) == (
        f"0-{RANKS - 1}",
        ["<module>", "step"],
    )

    for rank in (0, RANKS - 1):
        terminal = sit_in_pudb(open_terminal, str(rank))
        terminal.wait_for(f"doubled: {2 * rank}")
        detach(terminal)

    # All ranks end at once: so many interpreters keep two cores busy for seconds, and slow down everything else.
    patience = seconds(30)
    continued = attach(home, "continue", "all", "--timeout", str(patience), timeout=2 * patience)
    assert continued.returncode == 0, continued.stderr
    assert [rank.wait(seconds(60)) for rank in ranks] == [0] * RANKS
