"""The library without ``await``: each call runs in a thread with an event loop of its own, so it works in notebooks.

One thread serves one connection. Ctrl-C gives the call up; what a rank has begun goes on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

from dbg_client.api.answers import Answer, Breakpoints, Collectives, Where, Why, table_html
from dbg_client.api.blocking_stop import Stop, held
from dbg_client.api.broker import TIMEOUT, AsyncBroker, open_broker
from dbg_client.api.loop_thread import LoopThread
from dbg_client.api.ranks import AsyncJob, AsyncRanks
from dbg_client.api.targets import Wanted
from dbg_client.api.variables import Variables
from dbg_client.core.news import RankChange
from dbg_client.questions.source_text import Source
from dbg_wire.errors import NoSuchRank
from dbg_wire.records.ranks import RankInfo

T = TypeVar("T")


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

    def variables(
        self,
        of: str = "",
        *,
        scope: str = "locals",
        begin: int = 0,
        count: int = 0,
        frame: str = "",
        timeout: float | None = None,
    ) -> Variables:
        """Return variables of the one stopped rank that this is: of its frame, or the parts of an expression's value.

        ``scope`` is ``locals`` or ``globals``. Returns ``count`` of them from number ``begin`` on, and of more than 200
        the first 200. Raises RankError, NotStopped and AmbiguousTarget.
        """
        return self._thread.do(
            self._ranks.variables(of, scope=scope, begin=begin, count=count, frame=frame, timeout=timeout)
        )

    def source(self, file: str = "", *, begin: int = 1, count: int = 0, timeout: float | None = None) -> Source:
        """Return source as one of these ranks has loaded it: the first that is stopped, else the first.

        Returns ``count`` lines from ``begin`` on, or all that follow; without ``file`` of that where the rank stands.
        Raises RankError, and BadInput for a file that is none of these ranks'.
        """
        return self._thread.do(self._ranks.source(file, begin=begin, count=count, timeout=timeout))

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

    def breakpoints(self, *, timeout: float | None = None) -> Breakpoints:
        """Return the breakpoints that each of these ranks has, running ones included, those of PuDB and pdb, too."""
        return self._thread.do(self._ranks.breakpoints(timeout=timeout))

    def set_breakpoint(
        self,
        file: str,
        line: int,
        *,
        condition: str = "",
        hits: str = "",
        log: str = "",
        timeout: float | None = None,
    ) -> Breakpoints:
        """Set a breakpoint at a line of a file in each of these ranks, running ones included, or change the one there.

        It stops where ``condition`` is true; ``hits`` compares how often the program has come there, as in ``>= 3`` or
        ``% 100 == 0``; with ``log``, a text with ``{expression}`` in it, the rank prints that and goes on. The answer
        says who has set it, where it was moved to a line with code, and who says why not. Raises BadInput for a file
        that is none of these ranks'.
        """
        return self._thread.do(
            self._ranks.set_breakpoint(file, line, condition=condition, hits=hits, log=log, timeout=timeout)
        )

    def clear_breakpoint(self, file: str, line: int, *, timeout: float | None = None) -> Breakpoints:
        """Remove the breakpoint of a line from each of these ranks, the line that was asked for or the one it is at."""
        return self._thread.do(self._ranks.clear_breakpoint(file, line, timeout=timeout))

    def wait(self, seconds: float | None = None) -> RankInfo:
        """Return the first of these ranks that is stopped, as soon as one is. Raises TimedOut after ``seconds``."""
        return self._thread.do(self._ranks.wait(seconds))

    def wait_for_each(self, seconds: float | None = None) -> tuple[RankInfo, ...]:
        """Return these ranks as soon as all of them that live are stopped; ranks that come meanwhile count, too.

        Raises TimedOut after ``seconds``, which names those that are not, and RankEnded if all have exited.
        """
        return self._thread.do(self._ranks.wait_for_each(seconds))

    def attach(self, engine: str | None = "pdb", *, take: bool = False) -> Stop:
        """Return the one stopped rank that this is, with its keyboard held; ``with`` lets the keyboard go at the end.

        The rank stays stopped. With ``take`` the keyboard is taken from another terminal. Raises NotStopped, RankEnded,
        or a Refused.
        """
        return held(self._ranks.attach(engine, take=take), self._thread)

    def __repr__(self) -> str:
        return repr(self._ranks)

    def _repr_html_(self) -> str:
        """Return these ranks as a table, for a notebook."""
        try:
            ranks = self.list()
        except NoSuchRank:
            ranks = ()
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
        """Return what the token lets this program do: ``driver`` or ``watcher``; None while the broker is away."""
        return self._broker.role

    @property
    def ranks(self) -> tuple[RankInfo, ...]:
        """Return all ranks of all jobs as the broker lists them now, those included that have exited."""
        return self._thread.do(_now(lambda: self._broker.ranks))

    def jobs(self) -> tuple[Job, ...]:
        """Return the jobs with ranks that live."""
        return tuple(Job(job, self._thread) for job in self._thread.do(_now(self._broker.jobs)))

    def job(self, name: str | None = None) -> Job:
        """Return the job of this name, or the only one that lives. Raises BadInput, which names those that live."""
        return Job(self._thread.do(_now(lambda: self._broker.job(name))), self._thread)

    def wait(self, wanted: Wanted = "stopped", seconds: float | None = None) -> RankInfo:
        """Return the first of these ranks that is stopped, of whatever job. Raises TimedOut after ``seconds``."""
        return self._thread.do(self._broker.wait(wanted, seconds))

    def close(self) -> None:
        """Close the connection and what was attached over it; ranks stay as they are."""
        if not self._thread.is_ended:
            try:
                self._thread.do(self._broker.close())
            finally:
                self._thread.end()

    def __repr__(self) -> str:
        return f"<broker at {self.url}>"

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _now(call: Callable[[], T]) -> T:
    """Return what ``call`` returns, in the loop's thread: what the broker tells is read there alone."""
    return call()


async def _next(changes: AsyncIterator[RankChange]) -> RankChange:
    return await changes.__anext__()


def _place(rank: RankInfo) -> str:
    where = rank.where
    return f"{where.function} {where.file.rpartition('/')[2]}:{where.line}" if where is not None else ""


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
