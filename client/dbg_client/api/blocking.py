"""The library without ``await``: each call runs in a thread with an event loop of its own, so it works in notebooks.

One thread serves one connection. Ctrl-C gives the call up; what a rank has begun goes on. Each class has the methods of
its asynchronous twin, with their documentation.
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


def waits(method: Callable[Concatenate[T, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Blocking[T], P], R]:
    """Return a method that waits in this thread for what the twin's method returns in the connection's."""

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
        """Why the rank has stopped: ``breakpoint``, ``interrupt`` or ``crash``. Raises StopEnded."""
        return self._twin.reason

    @property
    def place(self) -> Place | None:
        """Return where the rank has stopped last, as it told by itself. Raises StopEnded."""
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
    """Ranks of a job, found anew at each call."""

    ask = waits(AsyncRanks.ask)
    eval = waits(AsyncRanks.eval)
    command = waits(AsyncRanks.command)
    where = waits(AsyncRanks.where)
    variables = waits(AsyncRanks.variables)
    why = waits(AsyncRanks.why)
    slow = waits(AsyncRanks.slow)
    collectives = waits(AsyncRanks.collectives)
    interrupt = waits(AsyncRanks.interrupt)
    resume = waits(AsyncRanks.resume)
    release = waits(AsyncRanks.release)
    breakpoints = waits(AsyncRanks.breakpoints)
    set_breakpoint = waits(AsyncRanks.set_breakpoint)
    clear_breakpoint = waits(AsyncRanks.clear_breakpoint)
    wait = waits(AsyncRanks.wait)

    def list(self) -> tuple[RankInfo, ...]:
        """Return these ranks as the broker lists them now. Raises NoSuchRank if there is none."""
        return self._now(self._twin.list)

    def __len__(self) -> int:
        return self._now(self._twin.__len__)

    def attach(self, engine: str | None = "pdb", *, take: bool = False) -> Stop:
        """Hold the keyboard of the one stopped rank that this is, until the ``with`` ends; the rank stays stopped.

        With ``take`` the keyboard is taken from another terminal. Raises NotStopped, RankEnded, or a Refused.
        """
        return Stop(self._twin.attach(engine, take=take), self._thread)


class Job(Ranks):
    """All ranks of one job; ``job[5]`` and ``job['@1']`` are some of them."""

    _twin: AsyncJob

    @property
    def name(self) -> str:
        """Return the name of the job."""
        return self._twin.name

    def __getitem__(self, wanted: Wanted) -> Ranks:
        return Ranks(self._twin[wanted], self._thread)

    def events(self) -> Iterator[RankChange]:
        """Yield each change of a rank of this job from now on, until the program stops to listen.

        Of changes of one rank that come at once, or while the program is busy, it gets one, from the first to the last.
        Raises BrokerUnreachable when the broker's connection is closed.
        """
        return self._thread.each(self._twin.events())


class Broker(Blocking[AsyncBroker]):
    """A connection to a broker that comes back by itself."""

    wait = waits(AsyncBroker.wait)

    @property
    def url(self) -> str:
        """Return where the broker is."""
        return self._twin.url

    @property
    def role(self) -> str | None:
        """Return what the token lets this program do: ``driver`` or ``watcher``; None while the broker is away."""
        return self._twin.role

    @property
    def ranks(self) -> tuple[RankInfo, ...]:
        """Return all ranks of all jobs as the broker lists them now, those included that have exited."""
        return self._now(lambda: self._twin.ranks)

    def jobs(self) -> tuple[Job, ...]:
        """Return the jobs with ranks that live."""
        return tuple(Job(one, self._thread) for one in self._now(self._twin.jobs))

    def job(self, name: str | None = None) -> Job:
        """Return the job of this name, or the only one that lives.

        Raises BadInput, which names the jobs that live, if there is no such job, or no name and not just one job.
        """
        return Job(self._now(lambda: self._twin.job(name)), self._thread)

    def close(self) -> None:
        """Close the connection and what was attached over it; ranks stay as they are."""
        self._thread.close(self._twin.close)

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(broker: str | None = None, *, timeout: float = TIMEOUT) -> Broker:
    """Return a connection to a broker; ``with connect() as broker:`` closes it at the end, and so does dropping it.

    ``broker`` is an address as in ``$DBG_BROKER``; without it the broker is found as the command line finds it.
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
