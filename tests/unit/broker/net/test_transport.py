"""Bytes that are not TLS, and the address by which a peer is counted."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from dbg_broker.net.tcp import network_of, peer_name
from tests.unit.broker.peers import SECONDS, running_broker


@pytest.mark.parametrize(
    ("address", "name"),
    [(("10.0.0.1", 5), "10.0.0.1:5"), (("::1", 5, 0, 0), "[::1]:5"), ("", "?"), (None, "?")],
)
def test_addresses_are_shown_in_the_usual_form(address: object, name: str) -> None:
    assert peer_name(address) == name


async def test_connection_without_tls_is_closed_and_counted_as_failure(tmp_path: Path) -> None:
    async with running_broker(tmp_path, tls=True) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.endpoint.port)
        writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), SECONDS)
        writer.close()
        assert await broker.terminal()
        assert broker.parts.meters.failures == 1


@pytest.mark.parametrize(
    ("peer", "network"),
    [
        ("10.0.0.1:5", "10.0.0.1"),
        ("[2001:db8:1:2:3::4]:5", "2001:db8:1:2::/64"),
        ("[::ffff:10.0.0.1]:5", "10.0.0.1"),
        ("?", "None"),
    ],
)
def test_a_host_is_counted_by_one_address(peer: str, network: str) -> None:
    assert network_of(peer) == network
