"""An event loop in a thread of its own, for programs without ``await``."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Any, Generic, TypeVar

from dbg_wire.errors import BadInput

T = TypeVar("T")
R = TypeVar("R")


class LoopThread:
    """A daemon thread that runs an event loop until :meth:`end`, or until the program has dropped this object.

    Then what ``closed_by`` was given is awaited first.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._entered: list[AbstractAsyncContextManager[Any]] = []
        self._closing: list[Callable[[], Awaitable[object]]] = []
        # The thread knows the loop alone: it must not keep this object alive.
        self._thread = threading.Thread(target=_run, args=(self._loop,), name="dbg-client", daemon=True)
        self._thread.start()
        self._dropped = weakref.finalize(self, _drop, self._loop, self._closing)
        self._dropped.atexit = False

    def closed_by(self, close: Callable[[], Awaitable[object]]) -> None:
        """Have this awaited if the program drops the thread without an end."""
        self._closing.append(close)

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
        entered = self.do(_awaited(manager.__aenter__))
        self._entered.append(manager)
        return entered

    def leave(self, manager: AbstractAsyncContextManager[object]) -> None:
        """Leave a context manager; does nothing if it is left already."""
        if manager in self._entered:
            self._entered.remove(manager)
            self.do(_awaited(partial(manager.__aexit__, None, None, None)))

    def each(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """Yield what a generator yields, and close it at the end."""
        try:
            while True:
                yield self.do(_awaited(items.__anext__))
        finally:
            self.do(_awaited(items.aclose))

    def close(self, closing: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Close what this thread is for, and end it; a second call does nothing."""
        if not self.is_ended:
            try:
                self.do(closing())
            finally:
                self.end()

    def end(self) -> None:
        """Leave what is still entered, and end the loop and its thread."""
        while self._entered:
            self.leave(self._entered[-1])
        self._dropped.detach()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class Blocking(Generic[T]):
    """The twin of an asynchronous object: its calls run in the thread of the connection; any thread may use it."""

    def __init__(self, twin: T, thread: LoopThread) -> None:
        self._twin = twin
        self._thread = thread

    def _now(self, call: Callable[[], R]) -> R:
        """Return what ``call`` returns, in the loop's thread: what the broker tells is read there alone."""
        return self._thread.do(_called(call))

    def __repr__(self) -> str:
        return repr(self._twin)


class Entered(Blocking[T]):
    """The twin of what a context manager yields, until :meth:`close`; ``with`` closes it at the end."""

    def __init__(self, manager: AbstractAsyncContextManager[T], thread: LoopThread) -> None:
        super().__init__(thread.enter(manager), thread)
        self._manager = manager

    def close(self) -> None:
        """Let it go, for a stop its keyboard; the rank stays as it is. A second call does nothing."""
        self._thread.leave(self._manager)

    def __enter__(self: E) -> E:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


E = TypeVar("E", bound=Entered[Any])


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    loop.close()


def _drop(loop: asyncio.AbstractEventLoop, closing: Sequence[Callable[[], Awaitable[object]]]) -> None:
    """End a loop that nobody can use any more; in any thread, the loop's own included, so nothing is waited for."""
    if not loop.is_closed():
        asyncio.run_coroutine_threadsafe(_leave(loop, closing), loop)


async def _leave(loop: asyncio.AbstractEventLoop, closing: Sequence[Callable[[], Awaitable[object]]]) -> None:
    for close in closing:
        with suppress(Exception):
            await close()
    loop.stop()


async def _called(call: Callable[[], R]) -> R:
    return call()


async def _awaited(call: Callable[[], Awaitable[T]]) -> T:
    return await call()
