"""Slow operations: a timeout for threads that may hang, and the status line that shows the current wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from dbg_dial.find import Opening
from dbg_dial.tcp import within
from dbg_wire.errors import FileTimeout, printable
from dbg_wire.messages import RankAnswer
from dbg_wire.records.ranks import RankInfo

SHOW_AFTER_SECONDS = 1.0
"""Seconds of a wait before the line is shown, and the interval of its updates."""

Show = Callable[[str | None], None]
"""Callback for the current line, or None to remove it."""

T = TypeVar("T")


def show_nobody(line: str | None) -> None:
    """Discard the line; a :data:`Show` for a program without a waiting user."""


class WaitingLine:
    """Status line. If there are several waits at the same time, it shows the first one until all of them have ended."""

    def __init__(self, show: Show = show_nobody) -> None:
        self._show = show
        self._open = 0
        self._showing: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def says(self, what: Callable[[], str]) -> AsyncIterator[None]:
        """Show ``what`` and the elapsed time while the block runs, after it has run for SHOW_AFTER_SECONDS."""
        self._showing = self._showing or asyncio.create_task(self._show_progress(what))
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            if not self._open:
                showing, self._showing = self._showing, None
                await cancel_and_wait(showing)
                self._show(None)

    async def _show_progress(self, what: Callable[[], str]) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            await asyncio.sleep(SHOW_AFTER_SECONDS)
            self._show(f"{what()} ({loop.time() - begun:.0f} s)")


class OpenAnswers:
    """Answers to a question so far. Its text is the number of ranks that have answered."""

    def __init__(self, ranks: Sequence[RankInfo]) -> None:
        self._ranks = {rank.key: rank for rank in ranks}
        self._answers: dict[str, RankAnswer] = {}

    def take(self, answers: Iterable[RankAnswer]) -> None:
        """Record answers. Only the first answer of a rank is used."""
        for answer in answers:
            self._answers.setdefault(answer.key, answer)

    def of(self, key: str) -> RankAnswer | None:
        """Return the answer of a rank; None if it has not answered."""
        return self._answers.get(key)

    def __str__(self) -> str:
        asked = len(self._ranks)
        if asked == 1:
            (rank,) = self._ranks.values()
            return f"waiting for {printable(rank.address)}"
        return f"{len(self._answers)} of {asked} ranks answered"


async def cancel_and_wait(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancel tasks, skipping None, and wait until they have ended. Never raises their errors."""
    there = [task for task in tasks if task is not None]
    for task in there:
        task.cancel()
    await asyncio.gather(*there, return_exceptions=True)


async def in_thread(call: Callable[[], T], seconds: float | None) -> T:
    """Run ``call`` in a daemon thread and return its result; raise TimeoutError after ``seconds``, if given.

    For a name server or a file system that may not answer. The program can exit while the thread still runs, unlike
    with threads of asyncio's own executor.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def take(value: object, error: BaseException | None) -> None:
        if not answer.done():
            answer.set_result((value, error))

    def run() -> None:
        value: object = None
        raised: BaseException | None = None
        try:
            value = call()
        except BaseException as error:
            raised = error
        with suppress(RuntimeError):  # the loop is closed, so no task waits any more
            loop.call_soon_threadsafe(take, value, raised)

    threading.Thread(target=run, name="dbg-apart", daemon=True).start()
    value, error = await within(seconds, answer)
    if error is not None:
        raise error
    return value  # type: ignore[no-any-return] # what call returned


async def read_in_thread(read: Callable[[Opening], T], seconds: float) -> T:
    """Run ``read`` in a daemon thread and return its result.

    ``read`` gets a function, and calls it with each path before it opens the path. If a path does not respond within
    ``seconds``, raise FileTimeout with that path. Before the first path there is no timeout, because a delay there
    only means that the machine is busy.
    """
    touched: list[str] = []
    reading = asyncio.ensure_future(in_thread(lambda: read(touched.append), None))
    try:
        while True:
            with suppress(TimeoutError):
                return await within(seconds, asyncio.shield(reading))
            if touched:
                raise FileTimeout(touched[-1])
    finally:
        reading.cancel()
