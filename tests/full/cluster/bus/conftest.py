"""One server of NATS: it has no leader to choose, so that a write after the start always has an answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.nats_servers import HAS_NATS, NatsServers, started_servers


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServers]:
    """A server of NATS; a test that stops it starts it again."""
    pytest.importorskip("nats")
    if not HAS_NATS:
        pytest.skip("needs nats-server")
    yield from started_servers(tmp_path_factory.mktemp("nats"), 1)
