"""A crowd of light ranks in one process, and meanwhile the delays of keys for another job in a second process.

``python -m tests.support.crowd hold URL TOKEN COUNT STEP`` has every STEP-th of COUNT ranks stop while the others are
held for them, and prints counts and seconds as JSON. ``… keys URL RANK_TOKEN DRIVER_TOKEN`` types at a rank of another
job until its stdin ends, and prints how long the keys took.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.sync.client import connect as connect_sync
from websockets.typing import Subprotocol

from dbg_agent.rank.holding import HoldCounts
from dbg_wire.codec import Input, decode, encode, encode_data
from dbg_wire.messages import Arrival, Chosen, Greet, RankReport, Report, Seat, Sender, Waiting, Welcome
from dbg_wire.records.ranks import RankState
from dbg_wire.version import subprotocol
from tests.unit.broker.peers import RUNNING, STOP, STOPPED, attach, registration

SITE = "/home/me/train.py:41"
AT_ONCE = 128
"""Ranks that dial at the same time; the crowd is complete before the first rank stops."""


def options(token: str) -> dict[str, Any]:
    """Return the options with which ranks and terminals connect."""
    return {
        "additional_headers": {"Authorization": f"Bearer {token}"},
        "subprotocols": [Subprotocol(subprotocol())],
        "compression": None,
        "ping_interval": None,
        "open_timeout": 120,
    }


class LightRank:
    """A rank that is chosen, or held for the chosen ranks."""

    def __init__(self, number: int, chosen: tuple[int, ...], told: Counter[str]) -> None:
        self.number = number
        self.is_chosen = number in chosen
        self.chosen = chosen
        self.told = told
        self.welcomed = asyncio.Event()
        self.went_on = asyncio.Event()
        self._holds = HoldCounts(time.monotonic)
        self._connection: ClientConnection | None = None

    async def come(self, url: str, token: str) -> None:
        """Register as a rank that runs."""
        self._connection = connection = await connect(f"{url}/agent", **options(token))
        said = registration(self.number, world_size=1024, report=RUNNING, key=f"4711.0/crowd/{self.number}")
        await connection.send(encode(said))
        self._reading = asyncio.create_task(self._read(connection))
        await self.welcomed.wait()

    async def stop(self) -> None:
        """Stop at the site, or be held there."""
        if self.is_chosen:
            await self._report(STOPPED.replace(session=None, arrivals=(Arrival(site=SITE, arrived=1, completed=0),)))
            return
        waiting = self._holds.visit(SITE, self.chosen)
        held = RankReport(state=RankState.HELD, stop=STOP.replace(reason="hold"))
        await self._report(held)
        self._holds.wait(waiting, 3600.0)
        await self._report(held.replace(waits=Waiting(site=SITE, count=1, ranks=self.chosen)))

    async def go_on(self) -> None:
        """End the stop of a chosen rank."""
        await self._report(RUNNING.replace(arrivals=(Arrival(site=SITE, arrived=1, completed=1),)))

    async def leave(self) -> None:
        """Abort the connection."""
        if self._connection is not None:
            self._reading.cancel()
            self._connection.transport.abort()

    async def _report(self, report: RankReport) -> None:
        if self._connection is not None:
            await self._connection.send(encode(Report(report=report)))

    async def _read(self, connection: ClientConnection) -> None:
        async for frame in connection:
            message = decode(frame, Sender.BROKER)
            if isinstance(message, Welcome):
                self.welcomed.set()
            elif isinstance(message, Chosen):
                self.told["messages"] += 1
                self.told["changes"] += len(message.ranks)
                self._holds.hear(message.site, message.ranks)
                if not self.went_on.is_set() and self._holds.judge().goes_on:
                    self.went_on.set()
                    await self._report(RUNNING)


async def hold(url: str, token: str, count: int, step: int) -> dict[str, float]:
    """Have a crowd held and let go; return counts and seconds."""
    told: Counter[str] = Counter()
    chosen = tuple(range(0, count, step))
    ranks = [LightRank(number, chosen, told) for number in range(count)]
    places = asyncio.Semaphore(AT_ONCE)

    async def come(rank: LightRank) -> None:
        async with places:
            await rank.come(url, token)

    async def timed(call: Callable[[], Any]) -> float:
        began = time.monotonic()
        await call()
        return time.monotonic() - began

    registered = await timed(lambda: asyncio.gather(*map(come, ranks)))
    await timed(lambda: asyncio.gather(*(rank.stop() for rank in ranks)))
    chosen_ranks = [rank for rank in ranks if rank.is_chosen]
    held_ranks = [rank for rank in ranks if not rank.is_chosen]

    async def let_go() -> None:
        for rank in chosen_ranks:
            await rank.go_on()
        await asyncio.gather(*(rank.went_on.wait() for rank in held_ranks))

    released = await timed(let_go)
    for rank in ranks:
        await rank.leave()
    return {"registered": registered, "released": released, **told}


def keys(url: str, rank_token: str, driver_token: str) -> dict[str, float]:
    """Type at a rank of another job until stdin ends; return the keys' number and their waits in seconds."""
    waits = []
    with (
        connect_sync(f"{url}/agent", **options(rank_token)) as rank,
        connect_sync(f"{url}/client", **options(driver_token)) as terminal,
    ):
        said = registration(0, job="another", key="another/0")
        rank.send(encode(said))
        rank.recv()
        terminal.send(encode(Greet(minor=0, release="0.1.0", name="me@login1")))
        terminal.send(encode(attach(said.identity.key)))
        seat = None
        while not isinstance(seat, Seat):
            frame = terminal.recv()
            seat = decode(frame, Sender.BROKER) if isinstance(frame, str) else seat
        offset = 0
        say("typing")
        while not select.select([sys.stdin], [], [], 0.002)[0]:
            began = time.monotonic()
            terminal.send(
                encode_data(Input(session=1, stop=1, generation=seat.generation or 0, offset=offset, data=b"n"))
            )
            offset += 1
            while isinstance(rank.recv(), str):
                pass
            waits.append(time.monotonic() - began)
    waits.sort()
    return {"keys": len(waits), "median": waits[len(waits) // 2], "longest": waits[-1]}


def say(line: str) -> None:
    """Write a line to stdout at once, for the test that reads it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(kind: str, *arguments: str) -> None:
    """Measure a hold or the keys, and print the result."""
    if kind == "hold":
        url, token, count, step = arguments
        result = asyncio.run(hold(url, token, int(count), int(step)))
    else:
        result = keys(*arguments)
    say(json.dumps(result))
    # An orderly exit would close a thousand connections one by one.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
