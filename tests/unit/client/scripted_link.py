"""A link to a broker that says what a test has prepared, each time that it is asked something."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

from dbg_client.core.brokers import Brokers
from dbg_client.core.link import Event
from dbg_client.core.switchboard import Switchboard
from dbg_wire.codec import Input
from dbg_wire.messages import Message, Question, Welcome


class ScriptedLink:
    """The n-th question is followed by the n-th of ``batches``; further ones by nothing."""

    url = "ws://x"
    welcome: Welcome | None = None

    def __init__(self, *batches: Sequence[Event], up: bool = True) -> None:
        self.sent: list[Question] = []
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.is_up = up
        self._batches = list(batches)

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def send(self, item: Message | Input) -> bool:
        if isinstance(item, Question) and self.is_up:
            self.sent.append(item)
            for event in self._batches.pop(0) if self._batches else ():
                self.events.put_nowait(event)
        return self.is_up

    async def next(self) -> Event:
        return await self.events.get()


@asynccontextmanager
async def switchboard_on(link: ScriptedLink, seconds: float = 1.0) -> AsyncIterator[Switchboard]:
    """Yield a switchboard that reads this link."""
    switchboard = Switchboard(lambda: cast("Brokers", link), seconds)
    await switchboard.dial()
    yield switchboard
    await switchboard.close()
