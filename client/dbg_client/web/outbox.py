"""WebSocket of one page with a bounded send queue: a page that does not read is disconnected, and reconnects."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from aiohttp import WSMsgType
from aiohttp.web import WebSocketResponse

from dbg_client.core.errors import bug
from dbg_client.web.messages import BEAT_SECONDS, MAX_FRAME, Beat, encode
from dbg_dial.tcp import within
from dbg_wire.errors import PeerError, printable
from dbg_wire.limits import MIB

if TYPE_CHECKING:
    from dbg_client.web.messages import ToPage, ToTerminal

MAX_UNSENT = 32 * MIB
"""Maximum unsent bytes for a page. The rows of 10,000 ranks take 5 MB, and so does an answer with 10,000 groups."""

COST = 100
"""Overhead of each queued message in bytes, for the objects around it."""

HEARTBEAT_SECONDS = 20.0
"""Ping interval in seconds: the page of a sleeping laptop is disconnected after 1.5 intervals."""

WRONG, FAULT = 1008, 1011
"""Close codes of RFC 6455, for a page that violates the protocol and for an internal error of the server."""

MAX_REASON = 100
"""Maximum length of a close reason, in characters; the protocol allows 123 bytes."""


class SocketHandler(Protocol):
    """Handler of one socket: of ``/live`` with a page's ranks, or of ``/terminal`` with a seat."""

    async def receive(self, frame: str | bytes) -> None:
        """Handle a frame of the page. Raises PeerError."""

    async def leave(self) -> None:
        """Clean up after the page has disconnected."""


class Outbox:
    """Send queue for one page; sending never blocks. Belongs to one event loop.

    A message for several pages is stored once. Above ``most`` bytes the connection is aborted, because the page would
    be wrong if messages were dropped. The page then reconnects and receives the full state.
    """

    def __init__(self, socket: WebSocketResponse, abort: Callable[[], None], most: int = MAX_UNSENT) -> None:
        self.is_over = False
        self._socket, self._abort, self._most = socket, abort, most
        self._waiting: deque[str | bytes] = deque()
        self._size = 0
        self._some = asyncio.Event()
        self._close: tuple[int, str] | None = None

    def send(self, *items: ToPage | ToTerminal) -> None:
        """Queue messages."""
        for item in items:
            self.put(encode(item))

    def put(self, frame: str | bytes) -> None:
        """Queue a text or binary frame."""
        if self.is_over:
            return
        self._size += len(frame) + COST
        self._waiting.append(frame)
        self._some.set()
        if self._size > self._most:
            self.drop()
            self._abort()

    def finish(self, code: int, reason: str) -> None:
        """Close the socket after sending all queued frames."""
        if not self.is_over:
            self.is_over, self._close = True, (code, printable(reason, MAX_REASON))
            self._some.set()

    def drop(self) -> None:
        """Discard queued frames and send nothing more."""
        self.is_over, self._close = True, None
        self._waiting.clear()
        self._some.set()

    async def run(self) -> None:
        """Send queued frames until the end."""
        with contextlib.suppress(ConnectionError):
            while self._waiting or not self.is_over:
                try:
                    await within(BEAT_SECONDS, self._some.wait())
                except TimeoutError:
                    # A broken tunnel closes no connection, so the page needs beats to know that the server is there.
                    self.send(Beat())
                self._some.clear()
                while self._waiting:
                    frame = self._waiting.popleft()
                    self._size -= len(frame) + COST
                    await (self._socket.send_bytes(frame) if isinstance(frame, bytes) else self._socket.send_str(frame))
            if self._close is not None:
                code, reason = self._close
                await self._socket.close(code=code, message=reason.encode())
        self.drop()


def new_socket() -> WebSocketResponse:
    """Return a new, unopened server side of a WebSocket."""
    return WebSocketResponse(heartbeat=HEARTBEAT_SECONDS, max_msg_size=MAX_FRAME, compress=False)


async def hold(socket: WebSocketResponse, outbox: Outbox, guest: SocketHandler) -> None:
    """Serve one socket until the page disconnects or is rejected."""
    sending = asyncio.create_task(outbox.run())
    try:
        async for message in socket:
            if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                await guest.receive(message.data)
    except PeerError as error:
        outbox.finish(WRONG, str(error))
    except Exception as error:
        # Regardless of the error, other pages continue, and this page reconnects.
        outbox.finish(FAULT, bug(error))
    finally:
        await guest.leave()
        if not outbox.is_over:
            outbox.drop()
        await asyncio.gather(sending, return_exceptions=True)
