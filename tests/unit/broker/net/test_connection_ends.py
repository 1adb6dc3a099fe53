"""A TLS connection that ends while its peer still sends causes no error in the broker."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.frames import Frame, Opcode

from tests.unit.broker.peers import Broker, running_broker

PATIENCE = 50
"""Pings that the peer sends after its last frame; the broker closes the connection within a few."""


@pytest.fixture
async def secure(tmp_path: Path) -> AsyncIterator[Broker]:
    """Run a broker that speaks TLS."""
    async with running_broker(tmp_path, tls=True) as running:
        yield running


@pytest.mark.parametrize(
    "last",
    [Frame(Opcode.CLOSE, b"\x03\xe8").serialize(mask=True), b"\xff\xff\xff\xff"],
    ids=["a close", "no frame at all"],
)
async def test_peer_that_sends_on_after_its_last_frame(
    secure: Broker, last: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    terminal = await secure.terminal()
    transport = terminal.websocket.transport
    transport.write(last)
    for _ in range(PATIENCE):
        transport.write(Frame(Opcode.PING, b"x").serialize(mask=True))
    await terminal.closed()
    await secure.left(lambda hub: not hub.terminals.links)
    assert caplog.messages == []
