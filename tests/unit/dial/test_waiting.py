from __future__ import annotations

import asyncio
import gc

import pytest

from dbg_dial.waiting import within
from tests.support.time_unit import seconds

PATIENCE = seconds(10)


async def test_the_deadline_ends_the_wait_and_cancels_what_was_waited_for() -> None:
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    with pytest.raises(asyncio.TimeoutError):
        await within(0.01, never)
    assert never.cancelled()


async def test_without_seconds_there_is_no_deadline() -> None:
    assert await within(None, asyncio.sleep(0, "answer")) == "answer"


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


async def test_an_error_in_the_moment_of_a_cancellation_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise OSError("late")

    task = asyncio.ensure_future(within(PATIENCE, fails()))
    for _ in range(2):
        await asyncio.sleep(0)
    task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    del task
    gc.collect()
    await asyncio.sleep(0)
    assert isinstance(outcome, asyncio.CancelledError)
    assert caplog.messages == []
