"""Tests of what faces for programs have in common."""

from __future__ import annotations

import asyncio

from dbg_client.core.errors import RankVanished
from dbg_client.core.requests import OpenRequests, sentence_of
from tests.conftest import Approved


async def test_requests_are_limited_cancelled_and_closed() -> None:
    open_ones, ended = OpenRequests(2, "call"), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    assert open_ones.start(1, work) == ""
    assert "call with the id 1 is open" in open_ones.start(1, work)
    assert open_ones.start("a", work) == ""
    assert "2 calls are open" in open_ones.start(3, work)
    await asyncio.sleep(0)
    assert open_ones.cancel(1)
    await ended.wait()
    await asyncio.sleep(0)
    assert not open_ones.cancel(1)
    assert open_ones.start(3, work) == ""
    await open_ones.close()
    await asyncio.sleep(0)
    assert not open_ones.cancel("a")


async def test_request_that_cancels_itself_continues() -> None:
    open_ones, results = OpenRequests(2, "request"), asyncio.Queue[bool]()

    async def work() -> None:
        results.put_nowait(open_ones.cancel(1))
        await asyncio.sleep(0)
        results.put_nowait(True)

    open_ones.start(1, work)
    assert [await results.get(), await results.get()] == [False, True]


def test_error_uses_the_words_of_the_interface_and_a_bug_is_named(approved: Approved) -> None:
    assert "; `ranks` shows" in sentence_of(RankVanished("vm:3"), {"list": "`ranks`"})
    approved(sentence_of(ValueError("x\x1b"), {}))
