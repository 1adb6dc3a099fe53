"""The first wrong number of a real job in the page of ``dbg-attach web``, and in the MCP tool ``numbers``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.scenes import TORCH_SECONDS
from tests.e2e.test_mcp import agent, call
from tests.support.broker import running_broker
from tests.support.chromium import Tab, chromium_or_skip
from tests.support.launchers import torchrun
from tests.support.pages import address_of
from tests.support.ranks import wait_until_stopped
from tests.support.requirements import needs_torch
from tests.support.runs import Directory
from tests.support.time_unit import seconds

pytestmark = [needs_torch, pytest.mark.timeout(seconds(240))]

WRONG = "rank 1, step 12: the output of `embed` has 32 NaN"


def test_the_page_and_an_agent_show_the_first_wrong_number(directory: Directory) -> None:
    running_broker(directory.processes, directory.home)
    job = torchrun(2, str(ROOT / "examples/wrong_numbers.py"), "bad-batch")
    environ = {**directory.variables, "OMP_NUM_THREADS": "1"}
    directory.processes.start("run", directory.command("--stop-at", "nan", "--", *job), env=environ)
    wait_until_stopped(directory.home, 1, seconds(TORCH_SECONDS))
    address = address_of(directory.processes, directory.home)
    with chromium_or_skip() as chromium, chromium.tab(address) as tab:
        check_page(tab)
    asyncio.run(check_tool(directory.home))


def check_page(tab: Tab) -> None:
    tab.until_text("#counts", "1 stopped")
    tab.ask("numbers")
    tab.until_text("#answer", "step 12")
    assert WRONG in tab.text("#answer").replace("\n", " ")
    assert tab.count("#answer svg.curve") == 1
    # The norms are measured at each tenth step, so there is one point. The axis ends at the wrong step.
    labels = "() => [...document.querySelectorAll('.curve text')].slice(1).map((label) => label.textContent)"
    assert tab.evaluate(labels) == ["step 10", "12"]
    points = "(name) => [...document.querySelector(`.curve .${name}`).points].map((point) => point.x)"
    (middle,) = tab.evaluate(points, "middle")
    assert tab.evaluate(points, "band") == [middle, middle]
    assert tab.count("#answer .curve line.wrong") == 1
    assert tab.evaluate("() => document.querySelector('.curve .wrong').x1.baseVal.value") > middle


async def check_tool(home: Path) -> None:
    async with agent(home) as session:
        answer = await call(session, "numbers")
    assert answer.startswith(WRONG), answer
