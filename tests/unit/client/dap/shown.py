"""What an IDE receives of ranks that a test lists, for tests that wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from dbg_client.dap.messages import Message
from dbg_client.dap.window import Threads, Window
from dbg_command.targets import parse_target
from dbg_dial.tcp import within
from dbg_wire.messages import Snapshot
from dbg_wire.records.ranks import RankInfo
from tests.support.time_unit import seconds
from tests.unit.client.scripted_link import ScriptedLink, switchboard_on


class Shown:
    """The messages that an IDE has received."""

    def __init__(self) -> None:
        self.received: list[Message] = []
        self._arrived = asyncio.Event()

    def take(self, message: Message) -> None:
        """Take a message."""
        self.received.append(message)
        self._arrived.set()

    async def until(self, enough: Callable[[], bool]) -> None:
        """Wait for messages."""

        async def wait() -> None:
            while not enough():
                self._arrived.clear()
                await self._arrived.wait()

        await within(seconds(10), wait())

    def named(self, name: str) -> list[Message]:
        """Return the bodies of the events of this name."""
        return [one["body"] for one in self.received if one.get("event") == name]

    async def answer(self, seq: int) -> Message:
        """Return the response to a request."""
        await self.until(lambda: any(one.get("request_seq") == seq for one in self.received))
        return next(one for one in self.received if one.get("request_seq") == seq)


@asynccontextmanager
async def threads(
    link: ScriptedLink, ranks: Sequence[RankInfo], target: str = "all", *, resumes_by_itself: bool = False
) -> AsyncIterator[tuple[Threads, Shown, Window]]:
    """Yield the threads of a window on these ranks, what its IDE receives, and the window."""
    shown = Shown()
    link.events.put_nowait(Snapshot(ranks=tuple(ranks), last=True))
    async with switchboard_on(link, seconds(10)) as switchboard:
        window = Window(switchboard, parse_target(target), shown.take)
        listing = Threads(window, resumes_by_itself=resumes_by_itself)
        await switchboard.listed()
        with switchboard.watched_by(listing.receive):
            listing.start()
            yield listing, shown, window
        listing.close()
