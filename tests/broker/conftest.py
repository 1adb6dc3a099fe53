"""Fixtures of the broker's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.broker.peers import Broker, running_broker


@pytest.fixture(params=["plain", "tls"])
async def any_broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Broker]:
    """Run a broker, once without TLS and once with it."""
    async with running_broker(tmp_path, tls=request.param == "tls") as running:
        yield running


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """Run a broker without TLS."""
    async with running_broker(tmp_path) as running:
        yield running
