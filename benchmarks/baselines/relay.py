"""The plainest relay that ``websockets`` makes: what comes at ``/agent/N`` goes to ``/client/N`` and back.

``python -m benchmarks.baselines.relay [FOLDER]`` prints its address; with the certificate in FOLDER it serves TLS.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from pathlib import Path
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from dbg_broker.home.certificate import CERTIFICATE_FILE, KEY_FILE
from tests.support.crowd import print_line

BACKLOG = 4096
"""Connections that may wait; with asyncio's own 100 a storm loses most of its time to resent packets."""


async def main(context: ssl.SSLContext | None) -> None:
    """Relay until killed."""
    peers: dict[str, ServerConnection] = {}
    others = {"agent": "client", "client": "agent"}

    async def relay(connection: ServerConnection) -> None:
        assert connection.request is not None
        side, _, number = connection.request.path[1:].partition("/")
        peers[f"{side}/{number}"] = connection
        try:
            async for frame in connection:
                other = peers.get(f"{others[side]}/{number}")
                if other is not None:
                    await other.send(frame)
        except ConnectionClosed:
            return

    options: dict[str, Any] = {"compression": None, "ping_interval": None, "max_size": None}
    async with serve(relay, "127.0.0.1", 0, ssl=context, backlog=BACKLOG, **options) as server:
        (listener, *_) = server.sockets
        print_line(f"{'ws' if context is None else 'wss'}://127.0.0.1:{listener.getsockname()[1]}")
        await asyncio.Event().wait()


def plain_context(folder: Path) -> ssl.SSLContext:
    """Return what Python makes of a certificate, without the broker's own wishes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / CERTIFICATE_FILE, folder / KEY_FILE)
    return context


if __name__ == "__main__":
    asyncio.run(main(plain_context(Path(sys.argv[1])) if sys.argv[1:] else None))
