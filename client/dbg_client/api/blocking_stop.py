"""A stop for programs without ``await``: each call runs in the thread of its connection."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from dbg_client.api.loop_thread import LoopThread
from dbg_client.api.stop import AsyncStop
from dbg_client.api.variables import ExceptionInfo, Variable, Variables
from dbg_wire.errors import printable
from dbg_wire.records.ranks import Place, RankInfo


class Stop:
    """A stopped rank whose keyboard this program holds. The rank stays stopped when the program leaves it, or dies.

    ``with`` and :meth:`close` let the keyboard go.
    """

    def __init__(self, stop: AsyncStop, thread: LoopThread, manager: AbstractAsyncContextManager[AsyncStop]) -> None:
        self._stop = stop
        self._thread = thread
        self._manager = manager

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

    def inspect(self, expression: str, *, frame: str = "", timeout: float | None = None) -> Variable:
        """Return the value of an expression, whose parts :meth:`variables` returns. Raises RankError."""
        return self._thread.do(self._stop.inspect(expression, frame=frame, timeout=timeout))

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
            self._stop.variables(of, scope=scope, begin=begin, count=count, frame=frame, timeout=timeout)
        )

    def locals(self, *, frame: str = "") -> dict[str, str]:
        """Return the text of each local variable of the frame, of the first 200; dunder names are left out."""
        return self._thread.do(self._stop.locals(frame=frame))

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
        return self._thread.do(self._stop.set(name, expression, of=of, scope=scope, frame=frame, timeout=timeout))

    def exception(self) -> ExceptionInfo | None:
        """Return the exception for which the rank is kept, or that it handles just now; None without one."""
        return self._thread.do(self._stop.exception())

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

    def close(self) -> None:
        """Let the keyboard go; the rank stays as it is. A second call does nothing."""
        self._thread.leave(self._manager)

    def __enter__(self) -> Stop:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        rank = self.rank
        where = f" in {rank.where.function} {rank.where.file}:{rank.where.line}" if rank.where is not None else ""
        return printable(f"<{rank.address} {rank.state.value}{where}>", MAX_SHOWN)


MAX_SHOWN = 500
"""Characters of a stop in one line."""


def held(manager: AbstractAsyncContextManager[AsyncStop], thread: LoopThread) -> Stop:
    """Return a stop whose keyboard is held from now on."""
    return Stop(thread.enter(manager), thread, manager)
