"""The broker's log of connections: each failure once, with ``-v -v`` each connection and message, and no secret."""

from __future__ import annotations

import asyncio
import logging

import pytest

from dbg_broker.home.bearer import Role
from dbg_broker.net import places
from tests.unit.broker.peers import SECONDS, Broker, registration

KEY = registration().identity.key


async def test_a_connection_given_up_in_its_tls_handshake_counts_once(
    any_broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dbg_broker")
    monkeypatch.setattr(places, "MAX_PENDING", 1)
    monkeypatch.setattr(places, "PATIENCE_SECONDS", 0.0)
    _, first = await asyncio.open_connection("127.0.0.1", any_broker.endpoint.port)
    # The rank needs the room of the first connection, which is within its handshake by the time the rank is welcome.
    await any_broker.rank()
    await asyncio.wait_for(any_broker.reception.forgot.wait(), SECONDS)
    first.close()
    assert any_broker.hub.connections.meters.failures == 1
    assert [record.getMessage() for record in caplog.records if "is closed" in record.getMessage()] == [
        record.getMessage() for record in caplog.records if "too many connections wait" in record.getMessage()
    ]


async def test_debug_lines_tell_connections_messages_and_states_and_no_text_of_theirs(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "dbg_broker")
    await broker.rank()
    await broker.seated(KEY)
    said = "\n".join(record.getMessage() for record in caplog.records)
    for line in (
        "comes from 127.0.0.1",
        "is open, for a rank",
        "says register",
        "says attach",
        f"rank {KEY} is stopped",
    ):
        assert line in said
    tokens = broker.tokens
    for token in (tokens.rank, *(tokens.of(role) for role in (Role.DRIVER, Role.WATCHER))):
        assert token not in caplog.text
