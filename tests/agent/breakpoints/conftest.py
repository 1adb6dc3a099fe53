"""Each test's rank gives up its breakpoints: from Python 3.12 on, ids of tools that monitor the interpreter are few."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.agent.pdb_driver import Driver


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Clear the breakpoints of the test's rank, if it has one."""
    driver: Driver | None = request.getfixturevalue("driver") if "driver" in request.fixturenames else None
    yield
    if driver is None:
        return
    driver.rank.breakpoints.lines.clear()
    served = driver.rank.breakpoints.wished
    if served is not None:
        served.refresh()
    if sys.version_info >= (3, 12):
        assert [sys.monitoring.get_tool(number) for number in range(6)].count("dbg-agent") == 0
