"""Open requests of a client of ours: an IDE, an agent, a page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Mapping
from typing import Any

from dbg_client.core.errors import bug, in_words_of
from dbg_client.core.patience import cancel_and_wait
from dbg_wire.errors import DbgError, printable


class OpenRequests:
    """The requests of one client by their numbers, worked on at the same time, ``most`` of them; of one event loop.

    ``what`` is what the client calls one of them.
    """

    def __init__(self, most: int, what: str) -> None:
        self._most, self._what = most, what
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}

    def begin(self, number: Hashable, work: Callable[[], Coroutine[Any, Any, None]]) -> str:
        """Begin to work on a request; return why not, empty if it has begun."""
        if number in self._tasks:
            return f"a {self._what} with the id {printable(str(number), 60)} is open; give another id"
        if len(self._tasks) >= self._most:
            return f"{self._most} {self._what}s are open; wait for one of them"
        task = self._tasks[number] = asyncio.create_task(work())
        task.add_done_callback(lambda done: self._tasks.pop(number) if self._tasks.get(number) is done else None)
        return ""

    def give_up(self, number: Hashable) -> bool:
        """Cancel a request; return whether it was open. One that cancels itself goes on."""
        task = self._tasks.get(number)
        if task is None or task is asyncio.current_task():
            return False
        return task.cancel()

    async def close(self) -> None:
        """Give all up. Never an error."""
        await cancel_and_wait(*self._tasks.values())


def sentence_of(error: Exception, words: Mapping[str, str]) -> str:
    """Return what is told of an error, in the words that a face has for commands of the terminal."""
    return in_words_of(error, words) if isinstance(error, DbgError) else bug(error)
