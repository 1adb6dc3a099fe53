"""An event loop in a thread of its own, for programs without ``await``."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from dbg_wire.errors import BadInput

T = TypeVar("T")


class LoopThread:
    """A daemon thread that runs an event loop until :meth:`end`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._entered: list[AbstractAsyncContextManager[Any]] = []
        self._thread = threading.Thread(target=self._run, name="dbg-client", daemon=True)
        self._thread.start()

    @property
    def is_ended(self) -> bool:
        """Tell whether nothing can be done any more."""
        return self._loop.is_closed()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what a coroutine returns; Ctrl-C cancels it. From any thread but the loop's own."""
        if self.is_ended:
            work.close()
            raise BadInput("this connection to the broker is closed", "connect() makes another one")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def enter(self, manager: AbstractAsyncContextManager[T]) -> T:
        """Return what a context manager yields; :meth:`leave` leaves it, or else the end of this thread."""
        entered = self.do(_entering(manager))
        self._entered.append(manager)
        return entered

    def leave(self, manager: AbstractAsyncContextManager[object]) -> None:
        """Leave a context manager; does nothing if it is left already."""
        if manager in self._entered:
            self._entered.remove(manager)
            self.do(_left(manager))

    def end(self) -> None:
        """Leave what is still entered, and end the loop and its thread."""
        while self._entered:
            self.leave(self._entered[-1])
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()


async def _entering(manager: AbstractAsyncContextManager[T]) -> T:
    return await manager.__aenter__()


async def _left(manager: AbstractAsyncContextManager[object]) -> None:
    await manager.__aexit__(None, None, None)
