"""`why` over a thousand ranks of which one is missing: who it is, and in how many seconds."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach
from tests.support.time_unit import seconds

pytestmark = [pytest.mark.integration, pytest.mark.alone]

RANKS, MISSING = 1000, 11

WITHIN = 3.0
"""Seconds of the whole command; 0.8 were measured on two idle cores, the start of its interpreter included."""


def test_the_missing_one_of_a_thousand_ranks_is_named_soon(processes: Processes, home: Path) -> None:
    broker = running_broker(processes, home)
    crowd = [sys.executable, "-m", "tests.support.waiting_crowd", broker.url, broker.rendezvous["tokens"]["rank"]]
    ranks = processes.start("crowd", [*crowd, str(RANKS), str(MISSING)], cwd=ROOT)
    ranks.wait_for_output("registered", seconds(60))

    began = time.monotonic()
    told = attach(home, "why", "--json")
    taken = time.monotonic() - began

    document = json.loads(told.stdout)
    verdict, cause = document["verdicts"]
    assert (document["asked"], document["answered"], told.returncode) == (RANKS, RANKS, 1)
    assert (verdict["kind"], verdict["ranks"], verdict["others"]) == ("missing", "11", "0-10,12-999")
    assert (verdict["group"], verdict["collective"], verdict["sequence"]) == ("dp", "all_reduce", 3172)
    assert (cause["kind"], cause["ranks"]) == ("waiting", "11")
    assert taken < seconds(WITHIN)
