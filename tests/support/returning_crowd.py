"""Light ranks in one process that come back whenever the broker is gone, as agents do.

``python -m tests.support.returning_crowd URL TOKEN COUNT`` prints a line once all are registered, and another one each
time that all have come back.
"""

from __future__ import annotations

import asyncio
import random
import sys

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from dbg_wire.codec import decode, encode
from dbg_wire.messages import Sender, Welcome
from dbg_wire.version import PROTOCOL_MINOR
from tests.support.crowd import options, say
from tests.unit.broker.peers import RUNNING, registration, trusting_context

LONGEST_PAUSE = 2.0
"""Seconds between two attempts at most, as an agent has it."""


class Crowd:
    """The ranks, and how many of them are registered."""

    def __init__(self, url: str, token: str, count: int) -> None:
        self._url, self._token, self._count = url, token, count
        self._there = 0
        self._context = trusting_context() if url.startswith("wss:") else None

    async def run(self) -> None:
        """Stay until the process is killed."""
        await asyncio.gather(*map(self._live, range(self._count)))

    async def _live(self, number: int) -> None:
        pause = 0.1
        while True:
            try:
                await self._serve(number)
                pause = 0.1
            except (OSError, WebSocketException, TimeoutError):
                pause = min(LONGEST_PAUSE, pause * 2)
            await asyncio.sleep(random.uniform(0, pause))  # noqa: S311

    async def _serve(self, number: int) -> None:
        async with connect(f"{self._url}/agent", ssl=self._context, **options(self._token)) as connection:
            changes = {"key": f"4711.0/crowd/{number}", "host": f"gpu{number:03}", "pid": 10_000 + number}
            said = registration(number, minor=PROTOCOL_MINOR, world_size=self._count, report=RUNNING, **changes)
            await connection.send(encode(said))
            while not isinstance(decode(await connection.recv(), Sender.BROKER), Welcome):
                pass
            self._there += 1
            if self._there == self._count:
                say("all are registered")
            try:
                while True:
                    await connection.recv()
            except ConnectionClosed:
                pass
            finally:
                self._there -= 1


if __name__ == "__main__":
    asyncio.run(Crowd(sys.argv[1], sys.argv[2], int(sys.argv[3])).run())
