"""64 ranks in one window of an IDE, which stop and go on all the time."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.support.broker import running_broker
from tests.support.ide import Ide, Refused, ide
from tests.support.processes import Processes
from tests.support.time_unit import seconds

pytestmark = [pytest.mark.integration, pytest.mark.alone]

RANKS = 64
STOP_SECONDS = 2.0
"""Seconds for which each rank stops: some thirty stops a second in the whole window."""

REQUESTS = 200
MOST_SECONDS = 0.1


def test_a_stack_comes_within_a_tenth_of_a_second(processes: Processes, home: Path) -> None:
    broker = running_broker(processes, home)
    words = [broker.url, broker.rendezvous["tokens"]["rank"], str(RANKS), str(STOP_SECONDS)]
    crowd = processes.start("crowd", [sys.executable, "-m", "tests.support.stopping_crowd", *words], cwd=ROOT)
    crowd.wait_for_output("registered", seconds(60))
    with ide(home) as window:
        window.attach()
        durations, moved = stacks(window)
        assert len(window.threads()) == RANKS
        window.leave()
    p95 = sorted(durations)[int(0.95 * len(durations))]
    assert p95 <= seconds(MOST_SECONDS), f"{1000 * p95:.0f} ms; {moved} ranks had gone on before"
    assert moved < REQUESTS / 4


def stacks(window: Ide) -> tuple[list[float], int]:
    """Ask for the stack of each rank that the window is told of; return the seconds of each, and how many had moved."""
    durations: list[float] = []
    moved = 0
    while len(durations) < REQUESTS:
        thread = window.event("stopped")["threadId"]
        window.request("threads")
        began = time.monotonic()
        try:
            frames = window.stack(thread)
        except Refused:
            moved += 1
            continue
        finally:
            durations.append(time.monotonic() - began)
        assert len(frames) == 20
    return durations, moved
