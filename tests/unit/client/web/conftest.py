from __future__ import annotations

from collections.abc import Iterator

import pytest

from dbg_wire.records.ranks import RankState
from tests.unit.client.fake_broker import FakeBroker, make_rank


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    """Return a broker with two ranks that are stopped and one that runs."""
    running = make_rank(7, state=RankState.RUNNING, reason=None, where=None)
    with FakeBroker(make_rank(5), make_rank(6), running) as broker:
        yield broker
