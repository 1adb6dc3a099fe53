"""Light ranks, all in one thread: connections that register, answer questions, crash, are cut, and come again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from dbg_wire.codec import decode, encode
from dbg_wire.messages import Ask, Goodbye, Kind, Probe, Pulse, Sender, Welcome, answer_to
from tests.support.crowd import options
from tests.support.tokens import written_tokens
from tests.unit.broker.peers import RUNNING, STOPPED, registration, trusting_context

T = TypeVar("T")

LAUNCHES = 2
"""Each rank comes in turns as this many processes, so that the broker's list of ended ranks stays as long as it is."""


class SoakedRank:
    """A rank that comes again whenever its connection ends, with the token that is valid then."""

    def __init__(self, number: int, home: Path, url: str, places: asyncio.Semaphore) -> None:
        self._number = number
        self._home = home
        self._url = url
        self._places = places
        self._launch = 0
        self._connection: ClientConnection | None = None
        self.is_there = asyncio.Event()

    async def live(self) -> None:
        """Be there, again and again, until cancelled."""
        while True:
            with suppress(ConnectionClosed, WebSocketException, OSError):
                await self._live_once()
            self.is_there.clear()
            self._launch = (self._launch + 1) % LAUNCHES

    async def _live_once(self) -> None:
        token = written_tokens(self._home)["rank"]
        async with self._places:
            connection = await connect(f"{self._url}/agent", **options(token), ssl=trusting_context())
        self._connection = connection
        report = STOPPED if self._number % 4 == 0 else RUNNING
        key = f"crowd/{self._number}/{self._launch}"
        said = registration(self._number, job="crowd", host="soak", key=key, world_size=4096, report=report)
        await connection.send(encode(said))
        async for frame in connection:
            if isinstance(frame, str):
                await self._react(connection, frame)

    async def _react(self, connection: ClientConnection, text: str) -> None:
        message = decode(text, Sender.BROKER)
        if isinstance(message, Welcome):
            self.is_there.set()
        elif isinstance(message, Probe):
            await connection.send(encode(Pulse(where=None)))
        elif isinstance(message, Ask):
            await connection.send(encode(answer_to(message.request, Kind.VALUE, "1")))

    async def crash(self) -> None:
        """End as a program that fails."""
        if self._connection is not None:
            with suppress(ConnectionClosed):
                await self._connection.send(encode(Goodbye(exit=1, detail="ValueError: soaked")))
                await self._connection.close()

    async def cut(self) -> None:
        """End as a process that is killed."""
        if self._connection is not None:
            self._connection.transport.abort()


class Crowd:
    """So many ranks, in an event loop of their own."""

    def __init__(self, count: int, home: Path, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="crowd", daemon=True)
        self._thread.start()
        self._ranks = self._wait(self._begin(count, home, url))

    async def _begin(self, count: int, home: Path, url: str) -> list[SoakedRank]:
        places = asyncio.Semaphore(16)
        ranks = [SoakedRank(number, home, url, places) for number in range(100, 100 + count)]
        self._lives = [asyncio.create_task(rank.live()) for rank in ranks]
        return ranks

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)

    def wait_until_all_are_there(self) -> None:
        """Return once all are registered."""

        async def all_there() -> None:
            for rank in self._ranks:
                await rank.is_there.wait()

        self._wait(all_there())

    def crash_and_cut(self, turn: int) -> None:
        """Have one rank crash and another one killed, others in each turn."""
        crashed, killed = self._ranks[2 * turn % len(self._ranks)], self._ranks[(2 * turn + 1) % len(self._ranks)]
        self._wait(crashed.crash())
        self._wait(killed.cut())

    def end(self) -> None:
        """End all of them."""

        async def stop() -> None:
            for life in self._lives:
                life.cancel()
            await asyncio.gather(*self._lives, *(rank.cut() for rank in self._ranks), return_exceptions=True)

        self._wait(stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
