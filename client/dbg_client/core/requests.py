"""Open requests of a local client: an IDE, an agent or a page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Mapping
from typing import Any

from dbg_client.core.errors import bug, in_terms_of
from dbg_client.core.wait_progress import cancel_and_wait
from dbg_wire.errors import DbgError, printable


class OpenRequests:
    """Requests of one client, by number. At most ``most`` are processed at the same time. Belongs to one event loop.

    ``what`` is the client's word for a request.
    """

    def __init__(self, most: int, what: str) -> None:
        self._most, self._what = most, what
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}

    def start(self, number: Hashable, work: Callable[[], Coroutine[Any, Any, None]]) -> str:
        """Start to process a request. Return the reason if it is not started, else an empty text."""
        if number in self._tasks:
            return f"a {self._what} with the id {printable(str(number), 60)} is open; use another id"
        if len(self._tasks) >= self._most:
            return f"{self._most} {self._what}s are open; wait for one of them"
        task = self._tasks[number] = asyncio.create_task(work())
        task.add_done_callback(lambda done: self._tasks.pop(number) if self._tasks.get(number) is done else None)
        return ""

    def cancel(self, number: Hashable) -> bool:
        """Cancel a request. Return True if it was open. A request can't cancel itself."""
        task = self._tasks.get(number)
        if task is None or task is asyncio.current_task():
            return False
        return task.cancel()

    async def close(self) -> None:
        """Cancel all requests. Never raises."""
        await cancel_and_wait(*self._tasks.values())


def sentence_of(error: Exception, actions: Mapping[str, str]) -> str:
    """Return the sentence of an error, with ``actions`` in place of shell commands."""
    return in_terms_of(error, actions) if isinstance(error, DbgError) else bug(error)
