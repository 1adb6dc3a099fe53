"""A rank with its debugger, driven without a network."""

from __future__ import annotations

import bdb
import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_agent.debuggers import console
from dbg_agent.frames import source
from dbg_agent.host import descriptors
from dbg_agent.process.threads import BoundedThreads
from tests.support.time_unit import seconds
from tests.unit.agent.pdb_driver import Driver, cancel_timers
from tests.unit.agent.pudb_viewer import Viewer

FILE_SECONDS = 60.0
"""Seconds for a file system, longer than a machine that runs tests is ever suspended."""


@pytest.fixture(autouse=True)
def no_timer_is_left() -> Iterator[None]:
    """Cancel timers after each test, or hundreds of threads would wait for their minute beside later tests."""
    yield
    cancel_timers()


@pytest.fixture(autouse=True)
def no_callbacks_of_collections() -> Iterator[None]:
    """Have a garbage collection call nothing: hypothesis takes the time of each, and a step may end in that call."""
    callbacks = list(gc.callbacks)
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = callbacks


@pytest.fixture(autouse=True)
def scaled_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a rank longer for its prompt and its file system, whose thread no earlier test may still occupy."""
    monkeypatch.setattr(console, "TAIL_SECONDS", seconds(console.TAIL_SECONDS))
    free = BoundedThreads("dbg-agent-path", 1)
    for module in (descriptors, source):
        monkeypatch.setattr(module, "FILE_SECONDS", seconds(FILE_SECONDS))
        monkeypatch.setattr(module, "file_system", free)


@pytest.fixture
def no_breakpoints() -> Iterator[None]:
    """Begin and end a test without breakpoints: Python keeps and numbers them for the whole process."""
    bdb.Breakpoint.clearBreakpoints()
    yield
    # A breakpoint that a test leaves would stop the programs of later tests, and have this thread traced.
    sys.settrace(None)
    bdb.Breakpoint.clearBreakpoints()


@pytest.fixture
def driver(no_breakpoints: None) -> Iterator[Driver]:
    """Drive a rank, which in the end gives up its breakpoints: ids of tools that monitor the interpreter are few."""
    driver = Driver()
    yield driver
    driver.rank.breakpoints.lines.clear()
    served = driver.rank.breakpoints.served
    if served is not None:
        served.refresh()
    if sys.version_info >= (3, 12):
        assert [sys.monitoring.get_tool(number) for number in range(6)].count("dbg-agent") == 0


@pytest.fixture
def viewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_breakpoints: None) -> Iterator[Viewer]:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("TERM", raising=False)
    yield Viewer()
    assert list(home.rglob("*")) == [], "a rank wrote into the user's home"
