"""Fixtures that several of these tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Processes
from tests.support.proxy import Proxy
from tests.support.runs import Directory
from tests.support.time_unit import seconds


@pytest.fixture
def broker(processes: Processes, home: Path) -> RunningBroker:
    """Return a running broker of the test's home."""
    return running_broker(processes, home)


@pytest.fixture
def leased_broker(processes: Processes, home: Path, events: Path) -> RunningBroker:
    """Return a broker that ends stops after two seconds and appends its events to a file."""
    command = str(events.with_suffix(""))
    return running_broker(processes, home, "--max-lease", f"{seconds(2):g}s", "--on-event", command)


@pytest.fixture
def proxy(broker: RunningBroker) -> Iterator[Proxy]:
    """A network in front of the broker, and of a later one on its port, that can be cut."""
    with Proxy(("127.0.0.1", broker.port)) as proxy:
        yield proxy


@pytest.fixture
def directory(tmp_path: Path, home: Path, processes: Processes, open_terminal: OpenTerminal) -> Directory:
    """Return a directory with a program in it."""
    folder = tmp_path / "work"
    folder.mkdir()
    made = Directory(folder, home, processes, open_terminal)
    made.write()
    return made


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """Return the file that the broker's command writes to, which stands beside it."""
    script = tmp_path / "notify"
    script.write_text('#!/bin/sh\ncat >>"$0.events"\n')
    script.chmod(0o700)
    return tmp_path / "notify.events"
