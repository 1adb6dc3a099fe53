"""An event loop that measures its turns."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from dbg_broker.net import loop
from dbg_broker.net.loop import BOUNDS, SWITCH_SECONDS, LoopTimes, new_times, run_measured


def longest_class(times: LoopTimes) -> float:
    """Return the lower bound of the class of the longest turn."""
    return max(bound for bound, count in zip((0.0, *BOUNDS), times.turns_processor.counts, strict=True) if count)


def nothing() -> None:
    """Do nothing."""


async def keep_the_loop() -> None:
    """Keep the loop busy for longer than 50 ms of processor time."""
    await asyncio.sleep(0)
    ends = time.thread_time() + 0.06
    while time.thread_time() < ends:
        pass
    await asyncio.sleep(0)


def test_a_call_that_keeps_the_loop_is_a_long_turn_and_a_sleep_is_none() -> None:
    times = new_times()
    run_measured(asyncio.sleep(0.06), times, nothing)
    quiet = longest_class(times)
    run_measured(keep_the_loop(), times, nothing)
    assert quiet < 0.05 <= longest_class(times)


def test_other_threads_give_the_interpreter_back_soon_while_the_loop_runs() -> None:
    seen = []

    async def look() -> None:
        seen.append(sys.getswitchinterval())

    before = sys.getswitchinterval()
    run_measured(look(), new_times(), nothing)
    assert seen == [pytest.approx(SWITCH_SECONDS)]
    assert sys.getswitchinterval() == before


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="policies are for Pythons without asyncio.Runner")
def test_a_loop_made_by_a_policy_measures_the_same() -> None:
    times = new_times()
    loop._run_with_policy(keep_the_loop(), lambda: asyncio.SelectorEventLoop(loop.MeasuredSelector(times, nothing)))
    assert longest_class(times) >= 0.05


def test_the_loop_goes_on_after_a_turn_without_memory() -> None:
    turns = 0

    def run_out() -> None:
        nonlocal turns
        turns += 1
        if turns == 2:
            raise MemoryError

    told: list[object] = []

    async def wait() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
        await asyncio.sleep(0.01)

    run_measured(wait(), new_times(), run_out)
    assert [type(error) for error in told] == [MemoryError]
