"""Tensors of ranks are compared by their whole content, although an answer shows only a part."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import ask, attach, start_ranks, texts, wait_until_states
from tests.support.requirements import needs_torch
from tests.support.time_unit import seconds

pytestmark = needs_torch

SCRIPT = """\
import os
import torch
from dbg_agent import set_trace
rank = int(os.environ["RANK"])
weight = torch.arange(1_000_000, dtype=torch.float32)
if rank == 2:
    weight[654_321] += 1
set_trace()
"""


@pytest.mark.timeout(seconds(120))
def test_one_differing_element_of_a_million_makes_a_group_of_its_own(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, SCRIPT, 3, env={"OMP_NUM_THREADS": "1"})
    wait_until_states(home, dict.fromkeys(range(3), "stopped"), seconds(90))
    answers = texts(ask(home, "eval", "all", "weight"))
    assert set(answers) == {"0-1", "2"}
    # Both answers read the same, since they show shapes and not values.
    assert answers["0-1"].split() == answers["2"].split()
    assert "1000000" in answers["2"]
    assert "float32" in answers["2"]
    figures = texts(ask(home, "eval", "all", "weight", "--stats"))
    assert all("mean" in text for text in figures.values())
    assert attach(home, "continue", "all").returncode == 0
    assert [rank.wait(seconds(30)) for rank in ranks] == [0, 0, 0]
