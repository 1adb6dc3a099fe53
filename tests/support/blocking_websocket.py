"""A WebSocket that one thread reads and writes by blocking calls.

Before Python 3.13 two threads on one TLS connection disturb each other, as those of websockets' own blocking client do.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from dbg_dial.tcp import within
from dbg_wire import subprotocol
from tests.support.time_unit import seconds
from tests.unit.broker.peers import trusting_context

SECONDS = seconds(20)


class BlockingWebSocket:
    """A connection to a broker at a role's path, until the ``with`` block ends; errors are those of websockets."""

    def __init__(self, url: str, path: str, token: str) -> None:
        self._loop = asyncio.new_event_loop()
        try:
            self._websocket = self._loop.run_until_complete(
                connect(
                    f"{url}{path}",
                    additional_headers={"Authorization": f"Bearer {token}"},
                    subprotocols=[Subprotocol(subprotocol())],
                    ssl=trusting_context(),
                    compression=None,
                    proxy=None,
                    open_timeout=SECONDS,
                )
            )
        except BaseException:
            self._loop.close()
            raise

    def __enter__(self) -> BlockingWebSocket:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run_until_complete(self._websocket.close())
        self._loop.close()

    def send(self, message: str | bytes) -> None:
        """Send a message."""
        self._loop.run_until_complete(within(SECONDS, self._websocket.send(message)))

    def recv(self) -> str | bytes:
        """Return the next message."""
        return self._loop.run_until_complete(within(SECONDS, self._websocket.recv()))

    def closed(self) -> int | None:
        """Return the code with which the broker closes the connection."""
        self._loop.run_until_complete(within(SECONDS, self._websocket.wait_closed()))
        return self._websocket.close_code
