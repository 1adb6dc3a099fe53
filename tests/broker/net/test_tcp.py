"""Socket options of connections, and the written form of their peers' addresses."""

from __future__ import annotations

import asyncio
import socket
import typing

import pytest

from dbg_broker.net.tcp import TERMINAL_SEND_BUFFER, peer_name, tune


async def transport_of(connected: socket.socket) -> asyncio.Transport:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=connected)
    return transport


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        return near, listener.accept()[0]


async def test_little_is_buffered_for_terminals() -> None:
    near, far = pair()
    transport = await transport_of(near)
    tune(transport, to_terminal=True)
    connected = typing.cast(socket.socket, transport.get_extra_info("socket"))
    # Linux doubles the size that it is asked for, to have room for its own bookkeeping.
    assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * TERMINAL_SEND_BUFFER
    assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    transport.close()
    far.close()


@pytest.mark.parametrize(
    ("address", "name"),
    [(("10.0.0.1", 5), "10.0.0.1:5"), (("::1", 5, 0, 0), "[::1]:5"), ("", "?"), (None, "?")],
)
def test_addresses_are_written_as_people_do(address: object, name: str) -> None:
    assert peer_name(address) == name
