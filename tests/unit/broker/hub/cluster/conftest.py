"""Fixtures of the tests of clusters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.broker.hub.cluster.several import Several, several_brokers


@pytest.fixture
async def several(tmp_path: Path) -> AsyncIterator[Several]:
    """Run three brokers of one cluster."""
    async with several_brokers(tmp_path) as running:
        yield running
