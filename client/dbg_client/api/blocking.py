"""The library without ``await``: each call runs in a thread with an event loop of its own, so it works in notebooks.

One thread serves one connection. Ctrl-C gives the call up; what a rank has begun goes on.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar

from dbg_wire.ranks import Place, RankInfo

from ..core.news import RankChange
from .answers import Answer, Collectives, Where, Why, table_html
from .broker import TIMEOUT, AsyncBroker, open_broker
from .ranks import AsyncJob, AsyncRanks
from .stop import AsyncStop
from .targets import Wanted

T = TypeVar("T")


class LoopThread:
    """A daemon thread that runs an event loop until :meth:`end`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="dbg-client", daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what a coroutine returns; Ctrl-C cancels it. From any thread but the loop's own."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def end(self) -> None:
        """End the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()


class Stop:
    """A stopped rank whose keyboard this program holds. The rank stays stopped when the program leaves it, or dies."""

    def __init__(self, stop: AsyncStop, thread: LoopThread) -> None:
        self._stop = stop
        self._thread = thread

    @property
    def rank(self) -> RankInfo:
        """Return the rank, as the broker lists it now."""
        return self._stop.rank

    @property
    def reason(self) -> str:
        """Return why the rank has stopped: ``breakpoint``, ``interrupt`` or ``crash``. Raises StopEnded."""
        return self._stop.reason

    @property
    def place(self) -> Place | None:
        """Return where the rank has stopped last, as it told by itself. Raises StopEnded."""
        return self._stop.place

    def stack(self) -> tuple[Place, ...]:
        """Return the frames of the stopped thread, the outermost first."""
        return self._thread.do(self._stop.stack())

    def eval(self, expression: str, *, frame: str = "", timeout: float | None = None) -> str:
        """Return the text of a value, in the bounds of the command line. Raises RankError with its exception."""
        return self._thread.do(self._stop.eval(expression, frame=frame, timeout=timeout))

    def locals(self, *, frame: str = "") -> dict[str, str]:
        """Return the text of each local variable of the frame; dunder names are left out."""
        return self._thread.do(self._stop.locals(frame=frame))

    def command(self, text: str, *, timeout: float | None = None) -> str:
        """Return what a command of pdb prints. Raises RankError."""
        return self._thread.do(self._stop.command(text, timeout=timeout))

    def next(self, *, timeout: float | None = None) -> Place:
        """Go to the next line of this function, and return the place."""
        return self._thread.do(self._stop.next(timeout=timeout))

    def step(self, *, timeout: float | None = None) -> Place:
        """Go to the next line, into functions that are called, and return the place."""
        return self._thread.do(self._stop.step(timeout=timeout))

    def up(self) -> Place:
        """Look at the frame that has called this one, until the next move, and return its place."""
        return self._thread.do(self._stop.up())

    def down(self) -> Place:
        """Look at the frame that this one has called, and return its place."""
        return self._thread.do(self._stop.down())

    def resume(self) -> None:
        """Let the rank go on; :meth:`wait` returns at its next stop."""
        self._thread.do(self._stop.resume())

    def wait(self, seconds: float | None = None) -> Place | None:
        """Return where the rank stops next. Raises TimedOut after ``seconds``, and RankEnded when it has exited."""
        return self._thread.do(self._stop.wait(seconds))


class Ranks:
    """Ranks of a job, found anew at each call."""

    def __init__(self, ranks: AsyncRanks, thread: LoopThread) -> None:
        self._ranks = ranks
        self._thread = thread

    def list(self) -> tuple[RankInfo, ...]:
        """Return these ranks as the broker lists them now. Raises NoSuchRank if there is none."""
        return self._thread.do(_now(self._ranks.list))

    def eval(
        self,
        expression: str,
        *,
        frame: str = "",
        live: bool = False,
        stats: bool = False,
        exact: bool = False,
        tolerance: float | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Return the value of an expression in each stopped or held rank; with ``live`` in running ones, too."""
        return self._thread.do(
            self._ranks.eval(
                expression, frame=frame, live=live, stats=stats, exact=exact, tolerance=tolerance, timeout=timeout
            )
        )

    def command(self, text: str, *, frame: str = "", timeout: float | None = None) -> Answer:
        """Run a command of pdb, such as ``n`` or ``p x``, in each of these ranks that is stopped."""
        return self._thread.do(self._ranks.command(text, frame=frame, timeout=timeout))

    def where(self, *, threads: bool = False, timeout: float | None = None) -> Where:
        """Return the stacks of these ranks, running ones included; with ``threads`` those of all their threads."""
        return self._thread.do(self._ranks.where(threads=threads, timeout=timeout))

    def why(self, *, timeout: float | None = None) -> Why:
        """Return why the job of these ranks does not go on; it may look several times, for some seconds."""
        return self._thread.do(self._ranks.why(timeout=timeout))

    def collectives(self, *, timeout: float | None = None) -> Collectives:
        """Return the last collective of each process group of the job, and who is in it."""
        return self._thread.do(self._ranks.collectives(timeout=timeout))

    def interrupt(self, *, timeout: float | None = None) -> Answer:
        """Have these ranks stop where they are; a rank in C code says so, and stops when it returns."""
        return self._thread.do(self._ranks.interrupt(timeout=timeout))

    def resume(self, *, timeout: float | None = None) -> Answer:
        """Let those of these ranks go on that are stopped."""
        return self._thread.do(self._ranks.resume(timeout=timeout))

    def release(self, *, timeout: float | None = None) -> Answer:
        """Let those of these ranks go on that are held, waiting for others."""
        return self._thread.do(self._ranks.release(timeout=timeout))

    def wait(self, seconds: float | None = None) -> RankInfo:
        """Return the first of these ranks that is stopped, as soon as one is. Raises TimedOut after ``seconds``."""
        return self._thread.do(self._ranks.wait(seconds))

    @contextmanager
    def attach(self, engine: str | None = "pdb", *, take: bool = False) -> Iterator[Stop]:
        """Hold the keyboard of the one stopped rank that this is, until the block ends; the rank stays stopped."""
        with self._entered(self._ranks.attach(engine, take=take)) as stop:
            yield Stop(stop, self._thread)

    @contextmanager
    def _entered(self, manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
        entered = self._thread.do(_entering(manager))
        try:
            yield entered
        finally:
            self._thread.do(_left(manager))

    def __repr__(self) -> str:
        return repr(self._ranks)

    def _repr_html_(self) -> str:
        """Return these ranks as a table, for a notebook."""
        ranks = self.list()
        rows = [(rank.address, rank.state.value, _place(rank)) for rank in ranks[:MAX_ROWS]]
        more = f", the first {MAX_ROWS}" if len(ranks) > MAX_ROWS else ""
        return table_html(f"{len(ranks)} ranks{more}", ("rank", "state", "where"), rows)


MAX_ROWS = 100
"""Ranks that a notebook shows one by one."""


class Job(Ranks):
    """All ranks of one job; ``job["0-7"]``, ``job[5]`` and ``job["@1"]`` are some of them."""

    def __init__(self, job: AsyncJob, thread: LoopThread) -> None:
        super().__init__(job, thread)
        self._job = job
        self.name = job.name

    def __getitem__(self, wanted: Wanted) -> Ranks:
        return Ranks(self._job[wanted], self._thread)

    def events(self) -> Iterator[RankChange]:
        """Yield each change of a rank of this job from now on, until the program stops to listen."""
        changes = self._job.events()
        try:
            while True:
                yield self._thread.do(_next(changes))
        finally:
            self._thread.do(changes.aclose())


class Broker:
    """A connection to a broker that comes back by itself; any thread may use it."""

    def __init__(self, broker: AsyncBroker, thread: LoopThread) -> None:
        self._broker = broker
        self._thread = thread

    @property
    def url(self) -> str:
        """Return where the broker is."""
        return self._broker.url

    @property
    def role(self) -> str | None:
        """Return what the token lets this program do: ``driver`` or ``watcher``; None from an older broker."""
        return self._broker.role

    @property
    def ranks(self) -> tuple[RankInfo, ...]:
        """Return all ranks of all jobs as the broker lists them now, those included that have exited."""
        return self._thread.do(_now(lambda: self._broker.ranks))

    def jobs(self) -> tuple[Job, ...]:
        """Return the jobs with ranks that live."""
        return tuple(Job(job, self._thread) for job in self._thread.do(_now(self._broker.jobs)))

    def job(self, name: str | None = None) -> Job:
        """Return the job of this name, or the only one that lives. Raises NoSuchRank and AmbiguousTarget."""
        return Job(self._thread.do(_now(lambda: self._broker.job(name))), self._thread)

    def wait(self, wanted: Wanted = "stopped", seconds: float | None = None) -> RankInfo:
        """Return the first of these ranks that is stopped, of whatever job. Raises TimedOut after ``seconds``."""
        return self._thread.do(self._broker.wait(wanted, seconds))

    def close(self) -> None:
        """Close the connection; ranks stay as they are."""
        self._thread.do(self._broker.close())
        self._thread.end()

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _now(call: Callable[[], T]) -> T:
    """Return what ``call`` returns, in the loop's thread: what the broker tells is read there alone."""
    return call()


async def _next(changes: AsyncIterator[RankChange]) -> RankChange:
    return await changes.__anext__()


async def _entering(manager: AbstractAsyncContextManager[T]) -> T:
    return await manager.__aenter__()


async def _left(manager: AbstractAsyncContextManager[object]) -> None:
    await manager.__aexit__(None, None, None)


def _place(rank: RankInfo) -> str:
    where = rank.where
    return f"{where.function} {where.file.rpartition('/')[2]}:{where.line}" if where is not None else ""


def connect(broker: str | None = None, *, timeout: float = TIMEOUT) -> Broker:
    """Return a connection to a broker; ``with connect() as broker:`` closes it at the end.

    ``broker`` is an address as in ``$DBG_BROKER``; without it the broker is found as the command line finds it.
    ``timeout`` is in seconds, for the broker and for answers. Raises NoBroker, BrokerUnreachable, or a Refused.
    """
    thread = LoopThread()
    try:
        return Broker(thread.do(open_broker(broker, timeout)), thread)
    except BaseException:
        thread.end()
        raise
