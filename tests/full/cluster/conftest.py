"""Three servers of NATS for all tests of a module, and three brokers for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Brokers
from tests.support.nats_servers import HAS_NATS, NatsServers, started_servers
from tests.support.processes import Processes


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServers]:
    """Three servers of NATS as one cluster; a test that stops some starts them again."""
    pytest.importorskip("nats")
    if not HAS_NATS:
        pytest.skip("needs nats-server")
    yield from started_servers(tmp_path_factory.mktemp("nats"))


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tokens that all brokers of a module have: one that was killed is there for some seconds more."""
    return tmp_path_factory.mktemp("site") / "tokens"


@pytest.fixture
def brokers(processes: Processes, nats: NatsServers, tmp_path: Path, tokens: Path) -> Brokers:
    """Three brokers that know each other."""
    nats.start()
    started = Brokers(processes, nats, tmp_path, tokens)
    for _ in range(3):
        started.add()
    return started
