"""Questions to name servers, which may take minutes, without a delay of the link's thread.

Each question has a daemon thread of its own, so the program doesn't wait for it at its end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from dbg_agent.link.fork_safety import ROUND_SECONDS
from dbg_agent.own_threads import own_thread

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

_Outcome = tuple[Any, BaseException | None]


class Lookups:
    """The questions of the link's event loop. A question that is still open is not asked again, but waited for."""

    def __init__(self) -> None:
        self._open: dict[Hashable, asyncio.Future[_Outcome]] = {}
        self._quiet = threading.Condition()
        self._running = 0
        self._waited_in_vain = False

    async def ask(self, name: Hashable, question: Callable[[], T], seconds: float) -> T:
        """Return what ``question`` returns, or raise what it raises; raise TimeoutError after ``seconds``.

        Questions with the same ``name`` are the same question.
        """
        import asyncio

        asked, loop = self._open.get(name), asyncio.get_running_loop()
        if asked is None or asked.get_loop() is not loop:
            asked = loop.create_future()
            own_thread(partial(self._answer, loop, asked, question), "dbg-agent-lookup").start()
            self._open[name] = asked
            asked.add_done_callback(lambda _: self._open.pop(name, None))
        # A deadline or a cancellation ends only this wait, not the question.
        done, _ = await asyncio.wait({asked}, timeout=seconds)
        if not done:
            raise asyncio.TimeoutError
        value, error = asked.result()
        if error is not None:
            raise error
        return value  # type: ignore[no-any-return] # by its name it is the answer to this question

    def before_fork(self) -> None:
        """Wait until no question is open, and let no question begin; go on without that after ROUND_SECONDS.

        The C library's look-up holds locks that would stay held for ever in a forked child. After a wait in vain, forks
        don't wait again until no question is open.
        """
        self._quiet.acquire()
        bound = 0.0 if self._waited_in_vain else ROUND_SECONDS
        self._waited_in_vain = not self._quiet.wait_for(lambda: self._running == 0, bound)

    def after_fork(self) -> None:
        """Let questions go on; in the parent, by the thread that has forked."""
        self._quiet.release()

    def _answer(
        self, loop: asyncio.AbstractEventLoop, asked: asyncio.Future[_Outcome], question: Callable[[], object]
    ) -> None:
        with self._quiet:
            self._running += 1
        outcome: _Outcome
        try:
            outcome = question(), None
        except BaseException as error:
            outcome = None, error
        with self._quiet:
            self._running -= 1
            self._quiet.notify_all()

        def tell() -> None:
            if not asked.done():
                asked.set_result(outcome)

        with suppress(RuntimeError):  # the loop has ended, and no task waits any more
            loop.call_soon_threadsafe(tell)
