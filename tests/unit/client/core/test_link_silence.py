"""A link whose broker falls silent or whose name server hangs."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest

from dbg_client.core import connection, link
from dbg_client.core.link import BrokerLink, Down, Up
from dbg_dial.waiting import within
from dbg_wire.messages import Snapshot, Subscribe
from tests.support.time_unit import seconds
from tests.unit.client.core.test_connection import reach
from tests.unit.client.core.test_link import PATIENCE, Where
from tests.unit.client.fake_broker import FakeBroker, make_rank


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a link notice a silence within half a second."""
    monkeypatch.setattr(connection, "PING_SECONDS", 0.1)
    monkeypatch.setattr(link, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(link, "LOOK_SECONDS", 0.05)


@pytest.mark.usefixtures("soon")
async def test_while_a_broker_is_silent_another_one_is_dialled_and_taken() -> None:
    enough = threading.Event()
    with FakeBroker(make_rank()) as first, FakeBroker(make_rank()) as second:
        where = Where(reach(first.port))
        to_broker = BrokerLink(where, "me@here", PATIENCE)
        await to_broker.open()
        assert isinstance(await to_broker.next(), Snapshot)
        where.reach = reach(second.port)
        # The broker answers nothing, like a suspended process: its kernel still acknowledges all data.
        first.do(enough.wait)
        assert await within(PATIENCE, to_broker.next()) == Down("the broker was silent")
        assert await within(PATIENCE, to_broker.next()) == Up()
        await second.heard(Subscribe)
        enough.set()
        await to_broker.close()


@pytest.mark.usefixtures("soon")
async def test_while_a_broker_is_silent_the_others_are_dialled_before_it() -> None:
    enough = threading.Event()
    with FakeBroker(make_rank()) as first, FakeBroker(make_rank()) as second:
        where = Where(replace(reach(first.port), others=(reach(second.port).endpoint,)))
        to_broker = BrokerLink(where, "me@here", PATIENCE)
        await to_broker.open()
        first.do(enough.wait)
        while await within(PATIENCE, to_broker.next()) != Up():
            pass
        await second.heard(Subscribe)
        enough.set()
        await to_broker.close()


@pytest.mark.usefixtures("soon")
async def test_a_broker_that_answers_pings_keeps_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    # Longer than a busy machine keeps the thread of the broker waiting.
    monkeypatch.setattr(link, "SILENT_SECONDS", seconds(1.5))
    with FakeBroker(make_rank()) as broker:
        where = Where(reach(broker.port))
        to_broker = BrokerLink(where, "me@here", PATIENCE)
        await to_broker.open()
        assert isinstance(await to_broker.next(), Snapshot)
        with pytest.raises(asyncio.TimeoutError):
            await within(seconds(3), to_broker.next())
        assert where.asked == 1
        await to_broker.close()
