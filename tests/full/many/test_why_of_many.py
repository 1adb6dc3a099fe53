"""`why` over a thousand ranks of which one is missing: who it is, and in how many seconds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.docs.pages import ROOT
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach
from tests.support.time_unit import seconds

RANKS, MISSING = 1000, 11


def test_the_missing_one_of_a_thousand_ranks_is_named(processes: Processes, home: Path) -> None:
    broker = running_broker(processes, home)
    crowd = [sys.executable, "-m", "tests.support.crowd", "waiting", broker.url, broker.rendezvous["tokens"]["rank"]]
    ranks = processes.start("crowd", [*crowd, str(RANKS), str(MISSING)], cwd=ROOT)
    ranks.wait_for_output("registered", seconds(60))

    told = attach(home, "why", "--json")

    document = json.loads(told.stdout)
    (verdict,) = document["verdicts"]
    assert (document["asked"], document["answered"], told.returncode) == (RANKS, RANKS, 1)
    assert (verdict["kind"], verdict["ranks"], verdict["others"]) == ("missing", "11", "0-10,12-999")
    assert (verdict["group"], verdict["collective"], verdict["sequence"]) == ("dp", "all_reduce", 3172)
    assert verdict["cause"] == "waiting"
