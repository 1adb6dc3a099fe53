"""Tests of what waits for one page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from aiohttp.web import WebSocketResponse

from dbg_client.faces.web.messages import Bell
from dbg_client.faces.web.outbox import COST, Outbox


class SlowSocket:
    """A socket that takes something only while it is open."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.sent: list[str | bytes] = []
        self.closed: tuple[int, bytes] | None = None

    async def send_str(self, text: str) -> None:
        await self.open.wait()
        self.sent.append(text)

    async def send_bytes(self, data: bytes) -> None:
        await self.open.wait()
        self.sent.append(data)

    async def close(self, *, code: int, message: bytes) -> None:
        self.closed = code, message


def outbox(socket: SlowSocket, abort: Callable[[], Any] = lambda: None, most: int = 10_000) -> Outbox:
    return Outbox(cast(WebSocketResponse, socket), abort, most)


def test_all_is_sent_in_order_before_the_close() -> None:
    async def work() -> None:
        socket = SlowSocket()
        box = outbox(socket)
        box.say(Bell())
        box.put(b"key")
        box.finish(4000, "over \x1b[2J")
        box.put(b"too late")
        socket.open.set()
        await box.run()
        assert socket.sent == ['{"type":"bell"}', b"key"]
        assert socket.closed == (4000, b"over \\x1b[2J")

    asyncio.run(work())


def test_a_page_that_does_not_read_is_cut_off_and_costs_no_more() -> None:
    async def work() -> None:
        socket, aborted = SlowSocket(), asyncio.Event()
        box = outbox(socket, aborted.set, most=10 * (100 + COST))
        sending = asyncio.create_task(box.run())
        for _ in range(11):
            assert not aborted.is_set()
            box.put(b"x" * 100)
        assert aborted.is_set()
        assert box.is_over
        box.put(b"more")
        socket.open.set()
        await sending
        assert socket.sent == []
        assert socket.closed is None

    asyncio.run(work())


def test_what_is_sent_makes_room() -> None:
    async def work() -> None:
        socket, aborted = SlowSocket(), asyncio.Event()
        socket.open.set()
        box = outbox(socket, aborted.set, most=2 * (100 + COST))
        sending = asyncio.create_task(box.run())
        for _ in range(10):
            box.put(b"x" * 100)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        box.finish(1000, "")
        await sending
        assert not aborted.is_set()
        assert len(socket.sent) == 10

    asyncio.run(work())
