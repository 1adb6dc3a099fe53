"""64 ranks in one window of an IDE, which stop and go on all the time."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from tests.docs.pages import ROOT
from tests.support.broker import running_broker
from tests.support.ide import Ide, Refused, ide
from tests.support.processes import Processes
from tests.support.time_unit import seconds

RANKS = 64
STOP_SECONDS = 2.0
"""Seconds for which each rank stops: some thirty stops a second in the whole window."""

STACKS = 64


def test_a_window_shows_ranks_that_stop_all_the_time(processes: Processes, home: Path) -> None:
    broker = running_broker(processes, home)
    words = [broker.url, broker.rendezvous["tokens"]["rank"], str(RANKS), str(STOP_SECONDS)]
    crowd = processes.start("crowd", [sys.executable, "-m", "tests.support.crowd", "stopping", *words], cwd=ROOT)
    crowd.wait_for_output("registered", seconds(60))
    with ide(home) as window:
        window.attach()
        show_stacks(window)
        assert len(window.threads()) == RANKS
        window.leave()


def show_stacks(window: Ide) -> None:
    """Ask for the stack of each rank that the window is told of, until so many have come; a rank may have gone on."""
    shown = 0
    while shown < STACKS:
        thread = window.event("stopped")["threadId"]
        window.request("threads")
        with contextlib.suppress(Refused):
            assert len(window.stack(thread)) == 20
            shown += 1
