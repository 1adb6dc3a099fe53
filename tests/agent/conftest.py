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
def driver() -> Iterator[Driver]:
    # Python numbers breakpoints per process, so those of other tests would count.
    bdb.Breakpoint.clearBreakpoints()  # type: ignore[attr-defined] # there since 3.10
    yield Driver()
    # A breakpoint that a test leaves would have all later tests of this thread traced.
    sys.settrace(None)
    bdb.Breakpoint.clearBreakpoints()  # type: ignore[attr-defined] # there since 3.10


@pytest.fixture
def viewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Viewer]:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("TERM", raising=False)
    yield Viewer()
    assert list(home.rglob("*")) == [], "a rank wrote into the user's home"
