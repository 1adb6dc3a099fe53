"""What an IDE gets, for tests that wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dbg_client.dap.messages import Message
from dbg_dial.deadline import within
from tests.support.time_unit import seconds


class Shown:
    """The messages that an IDE has got."""

    def __init__(self) -> None:
        self.said: list[Message] = []
        self._came = asyncio.Event()

    def take(self, message: Message) -> None:
        """Take a message."""
        self.said.append(message)
        self._came.set()

    async def until(self, enough: Callable[[], bool]) -> None:
        """Wait for messages."""

        async def came() -> None:
            while not enough():
                self._came.clear()
                await self._came.wait()

        await within(seconds(10), came())

    def named(self, name: str) -> list[Message]:
        """Return the bodies of the events of this name."""
        return [one["body"] for one in self.said if one.get("event") == name]

    async def answer(self, seq: int) -> Message:
        """Return the response to a request."""
        await self.until(lambda: any(one.get("request_seq") == seq for one in self.said))
        return next(one for one in self.said if one.get("request_seq") == seq)
