from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from dbg_agent.link.timers import Timers


class EndsMeanwhile(asyncio.SelectorEventLoop):
    """A loop that ends between the look at it and the call."""

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> Any:
        self.close()
        return super().call_soon_threadsafe(callback, *args, context=context)


def test_a_timer_of_a_loop_that_just_ends_is_that_of_the_next_loop() -> None:
    timers, called = Timers(), list[str]()
    timers.begin(EndsMeanwhile())
    timers.call_later(0.0, lambda: called.append("in the next loop"))
    timers.end()

    loop = asyncio.new_event_loop()
    timers.call_later(0.0, loop.stop)
    timers.begin(loop)
    loop.run_forever()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()

    assert called == ["in the next loop"]
