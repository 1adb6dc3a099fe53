"""An event loop that measures its turns."""

from __future__ import annotations

import asyncio
import selectors
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

from dbg_broker.net.loop_times import LoopTimes

SWITCH_SECONDS = 0.0005
"""Seconds after which a thread that computes lets the loop go on. The loop gives the interpreter away at each call of
the kernel, and there are several on the way of a key: with Python's own 5 ms a thread that makes the lines of a flooded
recording delays a key by 50 ms and more."""


class MeasuredSelector(selectors.DefaultSelector):
    """The selector of an event loop, which tells when the loop waits and when it goes on."""

    def __init__(self, times: LoopTimes, each_turn: Callable[[], None]) -> None:
        super().__init__()
        self._times = times
        self._each_turn = each_turn

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events as any selector does; what came during the turn before is looked for first."""
        self._times.waits()
        ready = super().select(0)
        has_slept = not ready and timeout != 0
        if has_slept:
            ready = super().select(timeout)
        self._times.goes_on(has_slept=has_slept)
        self._each_turn()
        return ready


class EnduringLoop(asyncio.SelectorEventLoop):
    """Event loop that goes on after a turn for which there was no memory.

    What was not done in such a turn is done in the next one: its events are still there.
    """

    def run_forever(self) -> None:
        """Run until ``stop`` is called; the exception handler is told of a MemoryError of the loop itself."""
        while True:
            try:
                return super().run_forever()
            except MemoryError as error:
                self.call_exception_handler({"message": "no memory for a turn of the event loop", "exception": error})


def new_times() -> LoopTimes:
    """Return the times of a loop that runs in the calling thread."""
    return LoopTimes(time.monotonic, time.thread_time)


def run_measured(main: Coroutine[Any, Any, None], times: LoopTimes, each_turn: Callable[[], None]) -> None:
    """Run a coroutine as ``asyncio.run`` does, in a loop that reports to ``times`` and calls ``each_turn``.

    While it runs, other threads give the interpreter back to the loop after SWITCH_SECONDS.
    """

    def new_loop() -> asyncio.AbstractEventLoop:
        return EnduringLoop(MeasuredSelector(times, each_turn))

    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        if sys.version_info >= (3, 11):
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(main)
        else:
            _run_with_policy(main, new_loop)
    finally:
        sys.setswitchinterval(before)


def _run_with_policy(main: Coroutine[Any, Any, None], new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Run a coroutine in a new loop where ``asyncio.run`` takes no factory of loops, as in Python 3.10."""

    class Policy(asyncio.DefaultEventLoopPolicy):
        def new_event_loop(self) -> asyncio.AbstractEventLoop:
            return new_loop()

    asyncio.set_event_loop_policy(Policy())
    try:
        asyncio.run(main)
    finally:
        asyncio.set_event_loop_policy(None)
