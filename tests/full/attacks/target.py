"""What an attacker knows of the broker, and the ways to dial it."""

from __future__ import annotations

import json
import os
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from dbg_wire import subprotocol
from dbg_wire.messages import Attach, Greet, Mode, Register, Seat, Sender, Welcome
from tests.support.time_unit import seconds
from tests.support.tokens import written_tokens
from tests.unit.broker.peers import Peer, attach, registration, trusting_context

SAME_ADDRESS = "127.0.0.1"
"""Where the terminal and the rank of the echo come from."""


@dataclass(frozen=True, slots=True)
class Target:
    """A serving broker, dialled from ``address``; ``tokens`` are its three, by role."""

    host: str
    port: int
    tokens: dict[str, str]
    address: str = SAME_ADDRESS

    @classmethod
    def of_home(cls, home: Path, address: str = SAME_ADDRESS) -> Target:
        """Return the broker that serves a home."""
        url = urlsplit(json.loads((home / "broker.json").read_text())["url"])
        return cls(url.hostname or "", url.port or 0, written_tokens(home), address)

    @classmethod
    def from_environment(cls, address: str = SAME_ADDRESS) -> Target:
        """Return the broker of ``DBG_HOME``."""
        return cls.of_home(Path(os.environ["DBG_HOME"]), address)

    def plain(self) -> socket.socket:
        """Return a TCP connection, on which nothing was sent."""
        return socket.create_connection((self.host, self.port), seconds(20), (self.address, 0))

    def secured(self) -> ssl.SSLSocket:
        """Return a connection after its TLS handshake."""
        return trusting_context().wrap_socket(self.plain())

    def ask(self, page: str, token: str | None = None) -> bytes:
        """Return the whole answer to a request for a page."""
        authorization = f"Authorization: Bearer {token}\r\n" if token is not None else ""
        with self.secured() as connection:
            connection.sendall(f"GET {page} HTTP/1.1\r\nHost: broker\r\n{authorization}\r\n".encode())
            answer = b""
            while data := connection.recv(65536):
                answer += data
        return answer

    async def open(self, path: str, token: str, sender: Sender) -> Peer:
        """Return a WebSocket, on which nothing was sent; errors of websockets are raised as they are."""
        websocket = await connect(
            f"wss://{self.host}:{self.port}{path}",
            ssl=trusting_context(),
            additional_headers={"Authorization": f"Bearer {token}"},
            subprotocols=[Subprotocol(subprotocol())],
            compression=None,
            ping_interval=None,
            max_size=None,
            open_timeout=seconds(30),
            local_addr=(self.address, 0),
        )
        return Peer(websocket, sender)

    async def rank(self, number: int = 0, **changes: object) -> Peer:
        """Connect and register a rank that is stopped."""
        peer = await self.open("/agent", self.tokens["rank"], Sender.AGENT)
        register: Register = registration(number, **changes)
        await peer.send(register)
        await peer.expect(Welcome)
        return peer

    async def terminal(self, role: str = "driver", name: str = "me@login1") -> Peer:
        """Connect and greet as a terminal."""
        peer = await self.open("/client", self.tokens[role], Sender.CLIENT)
        await peer.send(Greet(minor=0, release="0.1.0", name=name))
        await peer.expect(Welcome)
        return peer

    async def seated(self, key: str, mode: Mode = Mode.DRIVE) -> tuple[Peer, Seat]:
        """Connect a terminal and attach it to a rank."""
        peer = await self.terminal("watcher" if mode is Mode.WATCH else "driver")
        request: Attach = attach(key, mode)
        await peer.send(request)
        return peer, await peer.expect(Seat)
