"""The library without ``await``: each call runs in a thread with an event loop of its own, so it works in notebooks.

One thread serves one connection. Ctrl-C gives the call up; what a rank has begun goes on.

Made of the asynchronous classes by ``python -m tests.support.blocking``; a test holds that it is current.
"""

from __future__ import annotations

from collections.abc import Iterator

from dbg_client.api.answers import Answer, Breakpoints, Collectives, Slow, Where, Why
from dbg_client.api.broker import TIMEOUT, AsyncBroker, open_broker
from dbg_client.api.loop_thread import Blocking, Entered, LoopThread
from dbg_client.api.ranks import AsyncJob, AsyncRanks
from dbg_client.api.stop import AsyncStop
from dbg_client.api.targets import Wanted
from dbg_client.api.values import ExceptionInfo, Variable, Variables
from dbg_client.core.directory import RankChange
from dbg_client.questions.inspection import Source
from dbg_client.words.settings import DEFAULT_SECONDS
from dbg_wire.records.ranks import Place, RankInfo


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

    def stack(self) -> tuple[Place, ...]:
        """Return the frames of the stopped thread, the outermost first."""
        return self._thread.do(self._twin.stack())

    def eval(self, expression: str, *, frame: str = "", timeout: float | None = None) -> str:
        """Return the text of a value, in the bounds of the command line. Raises RankError with its exception."""
        return self._thread.do(self._twin.eval(expression, frame=frame, timeout=timeout))

    def inspect(self, expression: str, *, frame: str = "", timeout: float | None = None) -> Variable:
        """Return the value of an expression, whose parts :meth:`variables` returns. Raises RankError."""
        return self._thread.do(self._twin.inspect(expression, frame=frame, timeout=timeout))

    def variables(
        self,
        of: Variable | str | None = None,
        *,
        scope: str = "locals",
        begin: int = 0,
        count: int = 0,
        frame: str = "",
        timeout: float | None = None,
    ) -> Variables:
        """Return variables of the frame, ``locals`` or ``globals``, or parts of a value, from number ``begin`` on.

        ``of`` is a variable or an expression. Returns ``count`` of them, and of more than 200 the first 200. Raises
        RankError.
        """
        return self._thread.do(
            self._twin.variables(of, scope=scope, begin=begin, count=count, frame=frame, timeout=timeout)
        )

    def locals(self, *, frame: str = "") -> dict[str, str]:
        """Return the text of each local variable of the frame, of the first 200; dunder names are left out."""
        return self._thread.do(self._twin.locals(frame=frame))

    def set(
        self,
        name: str,
        expression: str,
        *,
        of: Variable | str | None = None,
        scope: str = "locals",
        frame: str = "",
        timeout: float | None = None,
    ) -> Variable:
        """Assign the value of an expression to a variable of the frame, or to a part of a value, and return what it is.

        Raises RankError for what can't be assigned, with the exception of the expression if that has raised one.
        """
        return self._thread.do(self._twin.set(name, expression, of=of, scope=scope, frame=frame, timeout=timeout))

    def exception(self) -> ExceptionInfo | None:
        """Return the exception for which the rank is kept, or that it handles just now; None without one."""
        return self._thread.do(self._twin.exception())

    def command(self, text: str, *, timeout: float | None = None) -> str:
        """Return what a command of pdb prints. Raises RankError."""
        return self._thread.do(self._twin.command(text, timeout=timeout))

    def next(self, *, timeout: float | None = None) -> Place:
        """Go to the next line of this function, and return the place. Raises TimedOut if the line takes longer."""
        return self._thread.do(self._twin.next(timeout=timeout))

    def step(self, *, timeout: float | None = None) -> Place:
        """Go to the next line, into functions that are called, and return the place."""
        return self._thread.do(self._twin.step(timeout=timeout))

    def up(self) -> Place:
        """Look at the frame that has called this one, until the next move, and return its place."""
        return self._thread.do(self._twin.up())

    def down(self) -> Place:
        """Look at the frame that this one has called, and return its place."""
        return self._thread.do(self._twin.down())

    def resume(self) -> None:
        """Let the rank go on; :meth:`wait` returns at its next stop."""
        self._thread.do(self._twin.resume())

    def wait(self, seconds: float | None = None) -> Place | None:
        """Return where the rank stops next, with the keyboard held again; at once if it is stopped and was not resumed.

        Raises TimedOut after ``seconds``, and RankEnded when the rank has exited.
        """
        return self._thread.do(self._twin.wait(seconds))

    def __repr__(self) -> str:
        return self._twin.__repr__()


class Ranks(Blocking[AsyncRanks]):
    """Ranks of a job, found anew at each call."""

    def list(self) -> tuple[RankInfo, ...]:
        """Return these ranks as the broker lists them now. Raises NoSuchRank if there is none."""
        return self._now(self._twin.list)

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
        """Return the value of an expression in each rank that is stopped or held; with ``live`` in running ones, too.

        It is evaluated in the stopped thread, in ``frame`` if one is named. Returns within ``timeout`` seconds, and
        names those that did not answer. Raises DbgError if the broker fails.
        """
        return self._thread.do(
            self._twin.eval(
                expression, frame=frame, live=live, stats=stats, exact=exact, tolerance=tolerance, timeout=timeout
            )
        )

    def command(self, text: str, *, frame: str = "", timeout: float | None = None) -> Answer:
        """Run a command of pdb, such as ``n`` or ``p x``, in each of these ranks that is stopped."""
        return self._thread.do(self._twin.command(text, frame=frame, timeout=timeout))

    def where(self, *, threads: bool = False, timeout: float | None = None) -> Where:
        """Return the stacks of these ranks, running ones included; with ``threads`` those of all their threads."""
        return self._thread.do(self._twin.where(threads=threads, timeout=timeout))

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
            self._twin.variables(of, scope=scope, begin=begin, count=count, frame=frame, timeout=timeout)
        )

    def source(self, file: str = "", *, begin: int = 1, count: int = 0, timeout: float | None = None) -> Source:
        """Return source as one of these ranks has loaded it: the first that is stopped, else the first.

        Returns ``count`` lines from ``begin`` on, or all that follow; without ``file`` of that where the rank stands.
        Raises RankError, and BadInput for a file that is none of these ranks'.
        """
        return self._thread.do(self._twin.source(file, begin=begin, count=count, timeout=timeout))

    def why(self, *, timeout: float | None = None) -> Why:
        """Return why the job of these ranks does not go on; it may look several times, for some seconds."""
        return self._thread.do(self._twin.why(timeout=timeout))

    def slow(self, seconds: float = DEFAULT_SECONDS, *, timeout: float | None = None) -> Slow:
        """Return who slows the job of these ranks down; its ranks look at themselves for so many seconds first.

        Raises BadInput for a time that is too long, and DbgError if the broker fails.
        """
        return self._thread.do(self._twin.slow(seconds, timeout=timeout))

    def collectives(self, *, timeout: float | None = None) -> Collectives:
        """Return the last collective of each process group of the job, and who is in it."""
        return self._thread.do(self._twin.collectives(timeout=timeout))

    def interrupt(self, *, timeout: float | None = None) -> Answer:
        """Have these ranks stop where they are; a rank in C code says so, and stops when it returns."""
        return self._thread.do(self._twin.interrupt(timeout=timeout))

    def resume(self, *, timeout: float | None = None) -> Answer:
        """Let those of these ranks go on that are stopped."""
        return self._thread.do(self._twin.resume(timeout=timeout))

    def release(self, *, timeout: float | None = None) -> Answer:
        """Let those of these ranks go on that are held, waiting for others."""
        return self._thread.do(self._twin.release(timeout=timeout))

    def breakpoints(self, *, timeout: float | None = None) -> Breakpoints:
        """Return the breakpoints that each of these ranks has, running ones included, those of PuDB and pdb, too."""
        return self._thread.do(self._twin.breakpoints(timeout=timeout))

    def set_breakpoint(
        self, file: str, line: int, *, condition: str = "", hits: str = "", log: str = "", timeout: float | None = None
    ) -> Breakpoints:
        """Set a breakpoint at a line of a file in each of these ranks, running ones included, or change the one there.

        It stops where ``condition`` is true; ``hits`` compares how often the program has come there, as in ``>= 3`` or
        ``% 100 == 0``; with ``log``, a text with ``{expression}`` in it, the rank prints that and goes on. The answer
        says who has set it, where it was moved to a line with code, and who says why not. Raises BadInput for a file
        that is none of these ranks'.
        """
        return self._thread.do(
            self._twin.set_breakpoint(file, line, condition=condition, hits=hits, log=log, timeout=timeout)
        )

    def clear_breakpoint(self, file: str, line: int, *, timeout: float | None = None) -> Breakpoints:
        """Remove the breakpoint of a line from each of these ranks, the line that was asked for or the one it is at."""
        return self._thread.do(self._twin.clear_breakpoint(file, line, timeout=timeout))

    def wait(self, seconds: float | None = None) -> RankInfo:
        """Return the first of these ranks that is stopped, as soon as one is. Raises TimedOut after ``seconds``."""
        return self._thread.do(self._twin.wait(seconds))

    def wait_for_each(self, seconds: float | None = None) -> tuple[RankInfo, ...]:
        """Return these ranks as soon as all of them that live are stopped; ranks that come meanwhile count, too.

        Raises TimedOut after ``seconds``, which names those that are not, and RankEnded if all have exited.
        """
        return self._thread.do(self._twin.wait_for_each(seconds))

    def attach(self, engine: str | None = "pdb", *, take: bool = False) -> Stop:
        """Hold the keyboard of the one stopped rank that this is, until the ``with`` ends; the rank stays stopped.

        With ``take`` the keyboard is taken from another terminal. Raises NotStopped, RankEnded, or a Refused.
        """
        return Stop(self._twin.attach(engine, take=take), self._thread)

    def __repr__(self) -> str:
        return self._twin.__repr__()

    def _repr_html_(self) -> str:
        """Return these ranks as a table, for a notebook."""
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

    def __repr__(self) -> str:
        return self._twin.__repr__()


class Broker(Blocking[AsyncBroker]):
    """A connection to a broker that comes back by itself."""

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

    def wait(self, wanted: Wanted = "stopped", seconds: float | None = None) -> RankInfo:
        """Return the first of these ranks that is stopped, of whatever job, also of one that is yet to come.

        Raises TimedOut after ``seconds``.
        """
        return self._thread.do(self._twin.wait(wanted, seconds))

    def close(self) -> None:
        """Close the connection and what was attached over it; ranks stay as they are."""
        self._thread.close(self._twin.close)

    def __repr__(self) -> str:
        return self._twin.__repr__()

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
