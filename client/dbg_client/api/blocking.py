"""The library without ``await``: each call runs in a thread with an event loop of its own, so it works in notebooks.

One thread serves one connection. Ctrl-C gives the call up; what a rank has begun goes on. Each class has the methods of
its asynchronous twin, with their documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from dbg_client.api.broker import TIMEOUT, AsyncBroker, open_broker
from dbg_client.api.loop_thread import Blocking, Entered, LoopThread
from dbg_client.api.ranks import AsyncJob, AsyncRanks
from dbg_client.api.stop import AsyncStop
from dbg_client.api.targets import Wanted
from dbg_client.core.directory import RankChange
from dbg_wire.records.ranks import Place, RankInfo

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")


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
        """Return the rank, as the broker lists it now."""
        return self._twin.rank

    @property
    def reason(self) -> str:
        """Return why the rank has stopped: ``breakpoint``, ``interrupt`` or ``crash``. Raises StopEnded."""
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
    source = waits(AsyncRanks.source)
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
    wait_for_each = waits(AsyncRanks.wait_for_each)

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

    def _repr_html_(self) -> str:
        return self._now(self._twin._repr_html_)


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

        A program that is slow loses the oldest changes, and the next one says how many. Raises BrokerUnreachable when
        the broker's connection is closed.
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
