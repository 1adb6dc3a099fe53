from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from dbg_client.core.deadline import in_thread, within
from tests.support.time_unit import seconds

PATIENCE = seconds(10)


async def test_what_hangs_in_a_thread_is_given_up_at_the_deadline() -> None:
    enough = threading.Event()
    with pytest.raises(asyncio.TimeoutError):
        await in_thread(enough.wait, 0.05)
    enough.set()
    with pytest.raises(socket.gaierror):
        await in_thread(lambda: socket.getaddrinfo("256.256.256.256", 1, flags=socket.AI_NUMERICHOST), PATIENCE)


async def test_a_cancellation_in_the_moment_of_the_answer_is_not_lost() -> None:
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(within(PATIENCE, answer))
    await asyncio.sleep(0)
    answer.set_result(None)
    # The answer is set, and the task that waits for it has not gone on yet.
    await asyncio.sleep(0)
    task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(outcome, asyncio.CancelledError)
