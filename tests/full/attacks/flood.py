"""Connections with a token that send as fast as the broker takes it, many of them in one process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from websockets.frames import Frame, Opcode

from dbg_wire.codec import encode
from dbg_wire.messages import Greet, Message
from tests.full.attacks.attacker import Begun
from tests.full.attacks.target import Target
from tests.unit.broker.peers import trusting_context

AT_ONCE = 64
"""Connections that are made at the same time."""


def text(message: Message | str) -> bytes:
    """Return the frame of a message."""
    payload = message if isinstance(message, str) else encode(message)
    return Frame(Opcode.TEXT, payload.encode()).serialize(mask=True)


def binary(data: bytes) -> bytes:
    """Return a binary frame."""
    return Frame(Opcode.BINARY, data).serialize(mask=True)


GREETING = text(Greet(minor=2, release="0.1.0", name="mallory@login1"))


@dataclass(frozen=True)
class Load:
    """What one connection sends: ``first`` once, and then ``again`` without end if there is anything."""

    role: str
    first: bytes
    again: bytes = b""
    reads: bool = True
    comes_back: bool = False
    """Whether it closes as soon as all was sent, and connects anew."""


class _Line(asyncio.Protocol):
    """One connection."""

    def __init__(self, target: Target, load: Load) -> None:
        self.ended = asyncio.get_running_loop().create_future()
        self.heard = asyncio.get_running_loop().create_future()
        self._target, self._load = target, load
        self._is_paused = self._floods = False

    def flood(self) -> None:
        """Send without end from now on."""
        self._floods = True
        self._send()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        path = "/agent" if self._load.role == "rank" else "/client"
        token = self._target.tokens[self._load.role]
        transport.write(
            f"GET {path} HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Protocol: dbg.v1\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            f"Sec-WebSocket-Version: 13\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        )
        transport.write(self._load.first)
        if self._load.comes_back:
            transport.close()

    def data_received(self, data: bytes) -> None:
        if not self.heard.done():
            self.heard.set_result(None)
        if not self._load.reads:
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        for future in (self.heard, self.ended):
            if not future.done():
                future.set_result(None)

    def _send(self) -> None:
        if self._floods and self._load.again and not self._is_paused and not self._transport.is_closing():
            self._transport.write(self._load.again)
            asyncio.get_running_loop().call_soon(self._send)


async def _keep_up(
    target: Target, load: Load, places: asyncio.Semaphore, ready: Callable[[], None], all_ready: asyncio.Event
) -> None:
    """Keep one connection open, and connect anew whenever it is closed; flood once all are there."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            async with places:
                _, line = await loop.create_connection(
                    lambda: _Line(target, load),
                    target.host,
                    target.port,
                    ssl=trusting_context(),
                    local_addr=(target.address, 0),
                )
                await line.heard
            ready()
            await all_ready.wait()
            line.flood()
            await line.ended
        except OSError:
            pass


async def _flood(target: Target, begun: Begun, lines: Sequence[Load]) -> None:
    left = len(lines)

    def ready() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            all_ready.set()
            begun()

    all_ready = asyncio.Event()
    places = asyncio.Semaphore(AT_ONCE)
    await asyncio.gather(*(_keep_up(target, load, places, ready, all_ready) for load in lines))


def flood(target: Target, begun: Begun, lines: Iterable[Load]) -> None:
    """Open connections that send without end; the attack is under way when all of them have been answered."""
    asyncio.run(_flood(target, begun, tuple(lines)))
