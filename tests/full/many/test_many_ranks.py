"""Many ranks at once: all are listed, held, shown and asked within the costs that are promised."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.docs.pages import ROOT
from tests.support.broker import running_broker
from tests.support.crowd import FRAMES
from tests.support.ide import Ide, Refused, ide
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
def test_many_ranks_stop_at_the_same_place(processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
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


SHOWN = 64
STOP_SECONDS = 2.0
"""Seconds for which each rank stops: some thirty stops a second in the whole window."""

STACKS = 64


def test_an_ide_shows_ranks_that_stop_continually(processes: Processes, home: Path) -> None:
    broker = running_broker(processes, home)
    words = [broker.url, broker.rendezvous["tokens"]["rank"], str(SHOWN), str(STOP_SECONDS)]
    crowd = processes.start("crowd", [sys.executable, "-m", "tests.support.crowd", "stopping", *words], cwd=ROOT)
    crowd.wait_for_output("registered", seconds(60))
    with ide(home) as window:
        window.attach()
        show_stacks(window)
        assert len(window.threads()) == SHOWN
        window.leave()


def show_stacks(window: Ide) -> None:
    """Ask for the stack of each rank that the window hears of, until it has so many; a rank may have continued."""
    shown = 0
    while shown < STACKS:
        thread = window.event("stopped")["threadId"]
        window.request("threads")
        with contextlib.suppress(Refused):
            assert len(window.stack(thread)) == len(FRAMES)
            shown += 1


ASKED, MISSING = 1000, 11


def test_why_names_the_missing_rank_of_a_thousand(processes: Processes, home: Path) -> None:
    broker = running_broker(processes, home)
    crowd = [sys.executable, "-m", "tests.support.crowd", "waiting", broker.url, broker.rendezvous["tokens"]["rank"]]
    ranks = processes.start("crowd", [*crowd, str(ASKED), str(MISSING)], cwd=ROOT)
    ranks.wait_for_output("registered", seconds(60))

    result = attach(home, "why", "--json")

    document = json.loads(result.stdout)
    (verdict,) = document["verdicts"]
    assert (document["asked"], document["answered"], result.returncode) == (ASKED, ASKED, 1)
    assert (verdict["kind"], verdict["ranks"], verdict["others"]) == ("missing", "11", "0-10,12-999")
    assert (verdict["group"], verdict["collective"], verdict["sequence"]) == ("dp", "all_reduce", 3172)
    assert verdict["cause"] == "waiting"
