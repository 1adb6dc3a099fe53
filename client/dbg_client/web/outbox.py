"""The WebSocket of one page, with a bounded queue before it: a page that does not read is cut off, and dials anew."""

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
"""Bytes that wait for a page: the rows of 10,000 ranks are 5 MB, and an answer in which all of them differ no more."""

COST = 100
"""Bytes that anything counts beside its own: the objects around it."""

HEARTBEAT_SECONDS = 20.0
"""Seconds between two pings: the page of a laptop that sleeps is given up after that time and its half."""

WRONG, FAULT = 1008, 1011
"""Codes of a close, as in RFC 6455: a page breaks the protocol; the server has a fault."""

MAX_REASON = 100
"""Characters of the reason in a close, which takes 123 bytes."""


class Guest(Protocol):
    """What serves one socket: the ranks of a page, or a seat."""

    async def receive(self, frame: str | bytes) -> None:
        """Take what the page sends. Raises PeerError."""

    async def leave(self) -> None:
        """Take note that the page is gone."""


class Outbox:
    """Send to one page in order, without having anybody wait; belongs to one event loop.

    Texts that go to several pages are shared. Policy: beyond ``most`` bytes the connection is aborted, since whatever
    was left out would be missed; the page dials anew and gets all there is.
    """

    def __init__(self, socket: WebSocketResponse, abort: Callable[[], None], most: int = MAX_UNSENT) -> None:
        self.is_over = False
        self._socket, self._abort, self._most = socket, abort, most
        self._waiting: deque[str | bytes] = deque()
        self._size = 0
        self._some = asyncio.Event()
        self._close: tuple[int, str] | None = None

    def say(self, *items: ToPage | ToTerminal) -> None:
        """Send messages."""
        for item in items:
            self.put(encode(item))

    def put(self, frame: str | bytes) -> None:
        """Send a text or bytes."""
        if self.is_over:
            return
        self._size += len(frame) + COST
        self._waiting.append(frame)
        self._some.set()
        if self._size > self._most:
            self.drop()
            self._abort()

    def finish(self, code: int, reason: str) -> None:
        """Close the socket once all is sent that waits."""
        if not self.is_over:
            self.is_over, self._close = True, (code, printable(reason, MAX_REASON))
            self._some.set()

    def drop(self) -> None:
        """Forget what waits; nothing is sent any more."""
        self.is_over, self._close = True, None
        self._waiting.clear()
        self._some.set()

    async def run(self) -> None:
        """Send what is put, until the end."""
        with contextlib.suppress(ConnectionError):
            while self._waiting or not self.is_over:
                try:
                    await within(BEAT_SECONDS, self._some.wait())
                except TimeoutError:
                    # What a tunnel has lost ends no connection: a page must hear that the server is there.
                    self.say(Beat())
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
    """Return the server's end of a WebSocket that is yet to be opened."""
    return WebSocketResponse(heartbeat=HEARTBEAT_SECONDS, max_msg_size=MAX_FRAME, compress=False)


async def hold(socket: WebSocketResponse, outbox: Outbox, guest: Guest) -> None:
    """Serve one socket until the page has gone or is sent away."""
    sending = asyncio.create_task(outbox.run())
    try:
        async for message in socket:
            if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                await guest.receive(message.data)
    except PeerError as error:
        outbox.finish(WRONG, str(error))
    except Exception as error:
        # Whatever fails, the other pages go on, and this one dials anew.
        outbox.finish(FAULT, bug(error))
    finally:
        await guest.leave()
        if not outbox.is_over:
            outbox.drop()
        await asyncio.gather(sending, return_exceptions=True)
