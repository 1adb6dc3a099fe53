"""A rank with its debugger, driven without a network."""

from __future__ import annotations

import bdb
import sys
from collections.abc import Iterator

import pytest

from tests.agent.pdb_driver import Driver


@pytest.fixture
def driver() -> Iterator[Driver]:
    # Their numbers are the process's: what other tests have set would count.
    bdb.Breakpoint.clearBreakpoints()  # type: ignore[attr-defined] # there since 3.10
    yield Driver()
    # Breakpoints that a test leaves would have this thread, and all later tests in it, traced.
    sys.settrace(None)
    bdb.Breakpoint.clearBreakpoints()  # type: ignore[attr-defined] # there since 3.10
