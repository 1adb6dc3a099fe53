"""The bus of one broker, and what comes on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from dbg_broker.net.bus.bus import Bus, BusHandlers
from dbg_broker.net.bus.connection import Servers
from dbg_broker.timers import Timers
from dbg_dial.waiting import within
from tests.support.nats_servers import NatsServers
from tests.support.time_unit import seconds


class End:
    """A bus, and queues of what it has told."""

    def __init__(self, nats: NatsServers, name: str) -> None:
        loop = asyncio.get_running_loop()
        self.bus = Bus(name, servers_of(nats), Timers(loop.time, loop.call_later))
        self.messages: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self.events: asyncio.Queue[str] = asyncio.Queue()
        self.bus.handlers = BusHandlers(
            received=lambda sender, payload: self.messages.put_nowait((sender, payload)),
            lost=lambda sender: self.events.put_nowait(f"lost {sender}"),
            up=lambda: self.events.put_nowait("up"),
            down=lambda why: self.events.put_nowait("down"),
        )

    async def message(self) -> tuple[str, bytes]:
        return await within(seconds(20), self.messages.get())

    async def event(self) -> str:
        return await within(seconds(20), self.events.get())


def servers_of(nats: NatsServers) -> Servers:
    return Servers(tuple(f"nats://127.0.0.1:{port}" for port in nats.ports))


@asynccontextmanager
async def ends(
    nats: NatsServers, *names: str, before: Callable[[Bus], None] = lambda bus: None
) -> AsyncIterator[list[End]]:
    """Yield buses that are up and know each other; ``before`` is called with each one before it is opened."""
    nats.start()
    opened = [End(nats, name) for name in names]
    try:
        for end in opened:
            before(end.bus)
            await end.bus.open()
            assert await end.event() == "up"
            end.bus.peers.update(dict.fromkeys(name for name in names if name != end.bus.name))
        yield opened
    finally:
        for end in opened:
            await end.bus.close()


async def once(holds: Callable[[], bool], turn: Callable[[], object]) -> None:
    """Make calls, a moment apart, until something holds: what NATS has taken is not told to who has sent it."""

    async def look() -> None:
        # The loop has a turn first, in which the end of a connection is noticed.
        await asyncio.sleep(0)
        while not holds():
            turn()
            await asyncio.sleep(0.02)

    await within(seconds(20), look())
