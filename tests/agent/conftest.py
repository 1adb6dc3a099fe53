"""A rank with its debugger, driven without a network."""

from __future__ import annotations

import bdb
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.pdb_driver import Driver
from tests.agent.pudb_viewer import Viewer


@pytest.fixture
def no_breakpoints() -> Iterator[None]:
    """Begin and end a test without breakpoints: Python keeps and numbers them for the whole process."""
    bdb.Breakpoint.clearBreakpoints()  # type: ignore[attr-defined] # there since 3.10
    yield
    # A breakpoint that a test leaves would stop the programs of later tests, and have this thread traced.
    sys.settrace(None)
    bdb.Breakpoint.clearBreakpoints()  # type: ignore[attr-defined] # there since 3.10


@pytest.fixture
def driver(no_breakpoints: None) -> Driver:
    return Driver()


@pytest.fixture
def viewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_breakpoints: None) -> Iterator[Viewer]:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("TERM", raising=False)
    yield Viewer()
    assert list(home.rglob("*")) == [], "a rank wrote into the user's home"
