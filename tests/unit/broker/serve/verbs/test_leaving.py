"""A broker of a run leaves once nobody is connected to it any more."""

from __future__ import annotations

import asyncio

import pytest

from dbg_broker.serve.leaving import Leaving

IDLE = 0.05


class Broker:
    """A broker that leaves after a moment without use."""

    def __init__(self, idle: float | None = IDLE) -> None:
        self.is_used = False
        self.left = asyncio.Event()
        self.leaving = Leaving(asyncio.get_running_loop(), lambda: self.is_used, self.left.set, idle)


async def stays(broker: Broker) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(broker.left.wait(), 3 * IDLE)


async def test_a_broker_that_nobody_ever_needed_leaves() -> None:
    await Broker().left.wait()


async def test_it_counts_anew_when_the_last_connection_is_gone() -> None:
    broker = Broker()
    broker.is_used = True
    await stays(broker)
    broker.is_used = False
    broker.leaving.poll()
    await broker.left.wait()


async def test_a_broker_that_was_started_by_hand_or_ends_does_not_leave() -> None:
    ended = Broker()
    ended.leaving.close()
    await stays(Broker(idle=None))
    await stays(ended)
