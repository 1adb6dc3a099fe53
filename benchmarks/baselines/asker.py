"""The plainest server of ``websockets`` that asks all who are connected, and waits for the last answer.

``python -m benchmarks.baselines.asker`` prints its address. Light ranks connect at ``/agent``; what is sent at ``/ask``
is sent to each of them, and answered once each has answered.
"""

from __future__ import annotations

import asyncio

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from benchmarks.baselines.relay import BACKLOG
from dbg_wire import PROTOCOL_MINOR
from dbg_wire.codec import encode
from dbg_wire.messages import Welcome
from tests.support.crowd import print_line

WELCOME = encode(Welcome(minor=PROTOCOL_MINOR, release="0.1.0", host="login1", pid=4711, uptime=0.0))


class Asker:
    """All who are connected, and how many of them are still to answer."""

    def __init__(self) -> None:
        self._agents: set[ServerConnection] = set()
        self._missing = 0
        self._answered = asyncio.Event()

    async def connected(self, connection: ServerConnection) -> None:
        """Serve one connection."""
        assert connection.request is not None
        try:
            await (self._ask(connection) if connection.request.path == "/ask" else self._hear(connection))
        except ConnectionClosed:
            return

    async def _ask(self, connection: ServerConnection) -> None:
        async for question in connection:
            self._missing = len(self._agents)
            self._answered.clear()
            for agent in self._agents:
                await agent.send(question)
            await self._answered.wait()
            await connection.send("all have answered")

    async def _hear(self, connection: ServerConnection) -> None:
        await connection.recv()
        await connection.send(WELCOME)
        self._agents.add(connection)
        async for _ in connection:
            self._missing -= 1
            if not self._missing:
                self._answered.set()


async def main() -> None:
    """Serve until killed."""
    asker = Asker()
    async with serve(asker.connected, "127.0.0.1", 0, compression=None, ping_interval=None, backlog=BACKLOG) as server:
        (listener, *_) = server.sockets
        print_line(f"ws://127.0.0.1:{listener.getsockname()[1]}")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
