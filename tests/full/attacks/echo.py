"""Keys of a terminal that a rank sends back, through a broker in a process of its own, over TLS."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from websockets.exceptions import ConnectionClosed, InvalidMessage

from dbg_wire.codec import Input, Output, decode_data
from dbg_wire.messages import Probe, ProbeReply, Sender
from tests.full.attacks.figures import Figures, classes, figures, longest_class
from tests.full.attacks.target import Target
from tests.support.broker import RunningBroker
from tests.unit.broker.peers import Peer, registration

T = TypeVar("T")

PAUSE_SECONDS = 0.01
"""Longest pause between two keys; its length is drawn, so that keys don't follow the broker's turns."""

RANK = 900
"""Number of the rank that echoes: ranks of attackers have lower ones."""

FOR_METRICS = "127.0.0.3"
"""Where the figures of the broker are asked from: apart from all others, whose connections may wait."""


class Echo:
    """A driver and its rank; both belong to the test's thread."""

    def __init__(self, broker: RunningBroker) -> None:
        self.target = Target.of_home(broker.home)
        self._loop = asyncio.new_event_loop()
        self._rank = self._run(self.target.rank(RANK))
        self._driver, seat = self._run(self.target.seated(registration(RANK).identity.key))
        self._generation = seat.generation or 0
        self._typed = self._drawn = 0

    def measure(self, seconds: float) -> Figures:
        """Type keys for some seconds, each as soon as the one before came back, and return what they waited for."""
        before = self._key_waits()
        echoes = self._run(self._echoes(seconds))
        return figures(echoes, longest_class(before, self._key_waits()))

    def page(self) -> str:
        """Return the broker's ``/metrics`` of this moment."""
        target = replace(self.target, address=FOR_METRICS)
        return target.ask("/metrics", target.tokens["driver"]).decode()

    def seconds_to_connect(self, address: str | None = None) -> float:
        """Connect another rank and another driver, one after the other, and return the time of both.

        Among too many connections of one address the oldest is closed, which may be theirs. They dial again then, as a
        rank's link does by itself and a user does by typing the command again.
        """
        target = replace(self.target, address=address or self.target.address)

        async def connect() -> float:
            began = time.monotonic()
            peers = [await _until_let_in(partial(target.rank, RANK + 1)), await _until_let_in(target.terminal)]
            took = time.monotonic() - began
            for peer in peers:
                await peer.cut()
            return took

        return self._run(connect())

    def close(self) -> None:
        """End the two connections."""
        for peer in (self._rank, self._driver):
            self._run(peer.cut())
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def _key_waits(self) -> dict[float, int]:
        return classes(self.page(), "key_wait_cpu_seconds")

    async def _echoes(self, seconds: float) -> list[float]:
        ends = time.monotonic() + seconds
        echoes = [await self._echo(), await self._echo()]
        while time.monotonic() < ends:
            await asyncio.sleep(random.uniform(0, PAUSE_SECONDS))  # noqa: S311 - no secret
            echoes.append(await self._echo())
        return echoes

    async def _echo(self) -> float:
        """Type a key and return the milliseconds to its echo."""
        began = time.monotonic()
        await self._driver.send(Input(session=1, stop=1, generation=self._generation, offset=self._typed, data=b"n"))
        self._typed += 1
        await next_data(self._rank)
        await self._rank.send(Output(session=1, offset=self._drawn, data=b"n"))
        self._drawn += 1
        await self._driver.expect_data()
        return (time.monotonic() - began) * 1000


async def next_data(rank: Peer) -> Input | Output:
    """Return the next keys that come to a rank; probes are answered meanwhile."""
    while True:
        message = await rank.next()
        if isinstance(message, bytes):
            return decode_data(message, Sender.CLIENT)
        if isinstance(message, Probe):
            await rank.send(ProbeReply(where=None))


async def _until_let_in(dial: Callable[[], Awaitable[Peer]]) -> Peer:
    """Return a connection; the time-out of the test ends attempts that come to nothing."""
    while True:
        try:
            return await dial()
        except (OSError, ConnectionClosed, InvalidMessage):
            continue
