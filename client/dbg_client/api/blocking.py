"""The library without ``await``: each call runs in a thread with its own event loop, so this works in notebooks.

One thread serves one connection. Ctrl-C ends the wait for the call, but a rank completes an action that it has begun.
Each class has the methods of its asynchronous twin, with the same docstrings.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from dbg_client.api.broker import TIMEOUT, AsyncBroker, open_broker
from dbg_client.api.ranks import AsyncJob, AsyncRanks, Wanted
from dbg_client.api.stop import AsyncStop
from dbg_client.core.directory import RankChange
from dbg_wire.errors import BadInput
from dbg_wire.records.ranks import Place, RankInfo

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")


class LoopThread:
    """A daemon thread that runs an event loop until :meth:`end`, or until the program drops this object.

    If the program drops the object, the callbacks passed to ``closed_by`` are awaited first.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._entered: list[AbstractAsyncContextManager[Any]] = []
        self._closing: list[Callable[[], Awaitable[object]]] = []
        # The thread refers only to the loop, because it must not keep this object alive.
        self._thread = threading.Thread(target=_run, args=(self._loop,), name="dbg-client", daemon=True)
        self._thread.start()
        self._dropped = weakref.finalize(self, _drop, self._loop, self._closing)
        self._dropped.atexit = False

    def closed_by(self, close: Callable[[], Awaitable[object]]) -> None:
        """Add a callback to await if the program drops this object without calling :meth:`end`."""
        self._closing.append(close)

    @property
    def is_ended(self) -> bool:
        """Whether the loop has ended, so that it can't run coroutines."""
        return self._loop.is_closed()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result; Ctrl-C cancels it. Call this from any thread except the loop's."""
        if self.is_ended:
            work.close()
            raise BadInput("this connection to the broker is closed", "connect() opens a new one")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def enter(self, manager: AbstractAsyncContextManager[T]) -> T:
        """Enter a context manager and return its value; :meth:`leave` or :meth:`end` leaves it."""
        entered = self.do(_awaited(manager.__aenter__))
        self._entered.append(manager)
        return entered

    def leave(self, manager: AbstractAsyncContextManager[object]) -> None:
        """Leave a context manager; do nothing if it was left already."""
        if manager in self._entered:
            self._entered.remove(manager)
            self.do(_awaited(partial(manager.__aexit__, None, None, None)))

    def each(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """Yield the items of an asynchronous generator, and close the generator at the end."""
        try:
            while True:
                yield self.do(_awaited(items.__anext__))
        finally:
            self.do(_awaited(items.aclose))

    def close(self, closing: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run ``closing`` and end this thread; a second call does nothing."""
        if not self.is_ended:
            try:
                self.do(closing())
            finally:
                self.end()

    def end(self) -> None:
        """Leave all context managers that are still entered, and end the loop and its thread."""
        while self._entered:
            self.leave(self._entered[-1])
        self._dropped.detach()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class Blocking(Generic[T]):
    """Blocking twin of an asynchronous object. Its calls run in the connection's thread; any thread may call it."""

    def __init__(self, twin: T, thread: LoopThread) -> None:
        self._twin = twin
        self._thread = thread

    def _now(self, call: Callable[[], R]) -> R:
        """Run ``call`` in the loop's thread, because only this thread may use the twin; return the result."""
        return self._thread.do(_called(call))

    def __repr__(self) -> str:
        return repr(self._twin)


class Entered(Blocking[T]):
    """Blocking twin of a context manager's value; :meth:`close` or the end of a ``with`` block leaves the manager."""

    def __init__(self, manager: AbstractAsyncContextManager[T], thread: LoopThread) -> None:
        super().__init__(thread.enter(manager), thread)
        self._manager = manager

    def close(self) -> None:
        """Leave the context manager; for a stop, release the keyboard. The rank stays as it is.

        A second call does nothing.
        """
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
    """End a loop that is no longer used. This may run in the loop's own thread, so it does not block."""
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


def waits(method: Callable[Concatenate[T, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Blocking[T], P], R]:
    """Return a blocking form of the twin's method, which runs in the connection's thread."""

    @wraps(method)
    def blocking(self: Blocking[T], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._thread.do(method(self._twin, *args, **kwargs))

    return blocking


class Stop(Entered[AsyncStop]):
    """A stopped rank whose keyboard this program holds."""

    @property
    def rank(self) -> RankInfo:
        """The rank, as the broker lists it now."""
        return self._twin.rank

    @property
    def reason(self) -> str:
        """Reason for the stop: ``breakpoint``, ``interrupt`` or ``crash``. Raises StopEnded."""
        return self._twin.reason

    @property
    def place(self) -> Place | None:
        """Place of the rank's most recent stop, as the rank reported it. Raises StopEnded."""
        return self._twin.place

    stack = waits(AsyncStop.stack)
    eval = waits(AsyncStop.eval)
    inspect = waits(AsyncStop.inspect)
    variables = waits(AsyncStop.variables)
    locals = waits(AsyncStop.locals)
    set = waits(AsyncStop.set)
    exception = waits(AsyncStop.exception)
    command = waits(AsyncStop.command)
    next = waits(AsyncStop.next)
    step = waits(AsyncStop.step)
    up = waits(AsyncStop.up)
    down = waits(AsyncStop.down)
    resume = waits(AsyncStop.resume)
    wait = waits(AsyncStop.wait)


class Ranks(Blocking[AsyncRanks]):
    """Ranks of a job, looked up again at each call."""

    ask = waits(AsyncRanks.ask)
    eval = waits(AsyncRanks.eval)
    command = waits(AsyncRanks.command)
    where = waits(AsyncRanks.where)
    variables = waits(AsyncRanks.variables)
    why = waits(AsyncRanks.why)
    slow = waits(AsyncRanks.slow)
    numbers = waits(AsyncRanks.numbers)
    collectives = waits(AsyncRanks.collectives)
    interrupt = waits(AsyncRanks.interrupt)
    resume = waits(AsyncRanks.resume)
    release = waits(AsyncRanks.release)
    breakpoints = waits(AsyncRanks.breakpoints)
    set_breakpoint = waits(AsyncRanks.set_breakpoint)
    clear_breakpoint = waits(AsyncRanks.clear_breakpoint)
    wait = waits(AsyncRanks.wait)

    def list(self) -> tuple[RankInfo, ...]:
        """Return these ranks as the broker lists them now. Raises NoSuchRank if no rank matches."""
        return self._now(self._twin.list)

    def __len__(self) -> int:
        return self._now(self._twin.__len__)

    def attach(self, engine: str | None = "pdb", *, take: bool = False) -> Stop:
        """Attach to the one stopped rank of the target, and hold its keyboard until the ``with`` ends.

        The rank stays stopped. With ``take`` the keyboard is taken from another terminal. Raises NotStopped,
        RankEnded, or a Refused.
        """
        return Stop(self._twin.attach(engine, take=take), self._thread)


class Job(Ranks):
    """All ranks of one job; ``job[5]`` and ``job['@1']`` select some of them."""

    _twin: AsyncJob

    @property
    def name(self) -> str:
        """Name of the job."""
        return self._twin.name

    def __getitem__(self, selector: Wanted) -> Ranks:
        return Ranks(self._twin[selector], self._thread)

    def events(self) -> Iterator[RankChange]:
        """Yield each change of a rank of this job from now on, until the program stops iterating.

        Several changes of one rank that arrive at once, or while the program is busy, become one change from the first
        state to the last. Raises BrokerUnreachable when the connection to the broker is closed.
        """
        return self._thread.each(self._twin.events())


class Broker(Blocking[AsyncBroker]):
    """A connection to a broker that reconnects by itself."""

    wait = waits(AsyncBroker.wait)

    @property
    def url(self) -> str:
        """URL of the broker."""
        return self._twin.url

    @property
    def role(self) -> str | None:
        """Role that the token grants: ``driver`` or ``watcher``; None while disconnected."""
        return self._twin.role

    @property
    def ranks(self) -> tuple[RankInfo, ...]:
        """All ranks of all jobs as the broker lists them now, including exited ranks."""
        return self._now(lambda: self._twin.ranks)

    def jobs(self) -> tuple[Job, ...]:
        """Return the jobs that have live ranks."""
        return tuple(Job(one, self._thread) for one in self._now(self._twin.jobs))

    def job(self, name: str | None = None) -> Job:
        """Return the job of this name, or the only live job.

        Raises BadInput if no job has this name. Without ``name``, raises BadInput if no job is live, or several are.
        The error names the live jobs.
        """
        return Job(self._now(lambda: self._twin.job(name)), self._thread)

    def close(self) -> None:
        """Close the connection and all stops that use it; the ranks stay as they are."""
        self._thread.close(self._twin.close)

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(broker: str | None = None, *, timeout: float = TIMEOUT) -> Broker:
    """Connect to a broker. The connection is closed when a ``with`` block ends, or when the program drops the object.

    ``broker`` is an address as in ``$DBG_BROKER``; without it, the broker is found as on the command line.
    ``timeout`` is in seconds, for the broker and for answers. Raises NoBroker, BrokerUnreachable, or a Refused.
    """
    thread = LoopThread()
    try:
        opened = thread.do(open_broker(broker, timeout))
        thread.closed_by(opened.close)
        return Broker(opened, thread)
    except BaseException:
        thread.end()
        raise
