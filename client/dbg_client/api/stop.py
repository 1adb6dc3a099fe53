"""One stop of one rank; a program holds the rank's keyboard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dbg_client.api.answers import safe_text
from dbg_client.api.inspection import ask_one
from dbg_client.api.values import At, ExceptionInfo, Values, Variable, Variables
from dbg_client.core.asking import Asker
from dbg_client.core.switchboard import Switchboard
from dbg_client.seat.attachment import Attachment
from dbg_client.seat.seat import KeyboardTaken, Seat
from dbg_client.verbs.preferences import EngineSpec
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.messages import Action, Mode, RankAnswer, StopInfo
from dbg_wire.records.inspection import Inspection
from dbg_wire.records.ranks import Place, RankInfo

MAX_SHOWN = 500
"""Maximum length of the ``repr()`` of a stop, in characters."""

AT_A_FRAME = frozenset({Action.EVAL, Action.COMMAND, Action.INSPECT})
"""Questions that the rank answers for the frame that the program has selected."""


class StopEnded(DbgError):
    """Raised when the stop has ended, so that it can't be inspected or resumed."""

    exit_status = 7

    def __init__(self, address: str, why: str) -> None:
        super().__init__(address, why)
        self.address = address
        self.why = why

    def __str__(self) -> str:
        return f"the stop of {printable(self.address)} ended ({printable(self.why)}); wait() returns at its next stop"


class AsyncStop:
    """A stopped rank whose keyboard this program holds; belongs to the event loop of its broker.

    The rank stays stopped when the program releases the keyboard or dies.
    """

    def __init__(self, switchboard: Switchboard, seat: Seat) -> None:
        self._switchboard = switchboard
        self._seat = seat
        self._left: int | None = None
        self._up = 0
        """Number of frames from the innermost one up to the selected one."""
        self._values = Values(self._ask_values, self.rank.address)

    # ------------------------------------------------------------------------------------------------- what is known

    @property
    def rank(self) -> RankInfo:
        """The rank, as the broker lists it now."""
        return self._seat.rank

    @property
    def reason(self) -> str:
        """Reason for the stop: ``breakpoint``, ``interrupt`` or ``crash``. Raises StopEnded."""
        return self._stop.reason

    @property
    def place(self) -> Place | None:
        """Place of the rank's most recent stop, as the rank reported it. Raises StopEnded."""
        return self._stop.where

    async def stack(self) -> tuple[Place, ...]:
        """Return the frames of the stopped thread, the outermost first."""
        return (await self._ask(Action.WHERE)).frames

    async def eval(self, expression: str, *, frame: str = "", timeout: float | None = None) -> str:
        """Return the text of an expression's value, within the command line's limits. Raises RankError."""
        return safe_text((await self._ask(Action.EVAL, expression, frame=frame, timeout=timeout)).text)

    async def inspect(self, expression: str, *, frame: str = "", timeout: float | None = None) -> Variable:
        """Return the value of an expression; :meth:`variables` returns its parts. Raises RankError."""
        return await self._values.inspect(expression, At(frame, timeout))

    async def variables(
        self,
        of: Variable | str | None = None,
        *,
        scope: str = "locals",
        start: int = 0,
        count: int = 0,
        frame: str = "",
        timeout: float | None = None,
    ) -> Variables:
        """Return variables of the frame, or parts of the value ``of``, which is a variable or an expression.

        ``scope`` is ``locals`` or ``globals``. Returns ``count`` variables from number ``start`` on, at most 200; a
        ``count`` of 0 means 200. Raises RankError.
        """
        return await self._values.variables(of, scope, start, count, At(frame, timeout))

    async def locals(self, *, frame: str = "") -> dict[str, str]:
        """Return the text of each local variable of the frame except dunder names; at most 200 variables are read."""
        return await self._values.locals(At(frame, None))

    async def set(
        self,
        name: str,
        expression: str,
        *,
        of: Variable | str | None = None,
        scope: str = "locals",
        frame: str = "",
        timeout: float | None = None,
    ) -> Variable:
        """Assign an expression's value to a variable of the frame or to a part of a value, and return the variable.

        Raises KeyboardTaken, and RankError if the assignment fails. If the expression raised an exception, the error
        shows that exception.
        """
        self._needs_keyboard()
        return await self._values.set(name, expression, of, scope, At(frame, timeout))

    async def exception(self) -> ExceptionInfo | None:
        """Return the exception that crashed the rank or that the rank is handling now; None without an exception."""
        return await self._values.exception()

    async def command(self, text: str, *, timeout: float | None = None) -> str:
        """Run a pdb command and return its output. Raises RankError."""
        return safe_text((await self._ask(Action.COMMAND, text, timeout=timeout)).text)

    # -------------------------------------------------------------------------------------------------------- moves

    async def next(self, *, timeout: float | None = None) -> Place:
        """Step to the next line of this function, and return the place.

        Raises RankError if the step takes longer than ``timeout`` seconds; the step continues.
        """
        return await self._move("next", timeout)

    async def step(self, *, timeout: float | None = None) -> Place:
        """Step to the next line, which may be in a called function, and return the place."""
        return await self._move("step", timeout)

    async def up(self) -> Place:
        """Select the frame that called the selected frame, and return its place.

        The next step selects the innermost frame again.
        """
        return await self._move_to(self._up + 1)

    async def down(self) -> Place:
        """Select the frame that the selected frame called, and return its place."""
        return await self._move_to(self._up - 1)

    async def resume(self) -> None:
        """Resume the rank; :meth:`wait` returns at its next stop."""
        number = self._stop.number
        await self._ask(Action.CONTINUE)
        self._left, self._up = number, 0

    async def wait(self, seconds: float | None = None) -> Place | None:
        """Wait for the rank's next stop, hold the keyboard again, and return the place.

        Returns at once if the rank is stopped and was not resumed. Raises TimedOut after ``seconds``, and RankEnded
        when the rank has exited.
        """
        return (await self._seat.next_stop(self._left, seconds)).where

    def __repr__(self) -> str:
        rank = self.rank
        where = f" in {rank.where.function} {rank.where.file}:{rank.where.line}" if rank.where is not None else ""
        return printable(f"<{rank.address} {rank.state.value}{where}>", MAX_SHOWN)

    # --------------------------------------------------------------------------------------------------------- inner

    @property
    def _attachment(self) -> Attachment:
        return self._seat.attachment

    @property
    def _stop(self) -> StopInfo:
        report = self._attachment.report
        if self._seat.error is not None:
            raise self._seat.error
        if self._seat.is_over or report is None or report.stop is None:
            raise StopEnded(self.rank.address, self._attachment.ending.by or "the rank resumed")
        return report.stop

    async def _move(self, command: str, timeout: float | None) -> Place:
        self._up = 0
        await self._ask(Action.COMMAND, command, timeout=timeout)
        frames = await self.stack()
        if not frames:
            raise StopEnded(self.rank.address, self._attachment.ending.by or "the rank resumed")
        return frames[-1]

    async def _move_to(self, up: int) -> Place:
        frames = await self.stack()
        if not 0 <= up < len(frames):
            raise BadInput("there is no frame further " + ("up" if up > 0 else "down"), "stack() returns all frames")
        self._up = up
        return frames[-1 - up]

    def _frame(self, action: Action) -> str:
        """Return the selected frame for a question: "" is the innermost frame, and ``-2`` the frame that called it."""
        return str(-1 - self._up) if self._up and action in AT_A_FRAME else ""

    async def _ask_values(self, question: Inspection, at: At) -> RankAnswer:
        return await self._ask(Action.INSPECT, inquiry=question, frame=at.frame, timeout=at.timeout)

    def _needs_keyboard(self) -> None:
        if not self._attachment.driving:
            raise KeyboardTaken(self.rank.address, self._attachment.driver)

    async def _ask(
        self,
        action: Action,
        text: str = "",
        *,
        inquiry: Inspection | None = None,
        frame: str = "",
        timeout: float | None = None,
    ) -> RankAnswer:
        rank = self.rank
        if action is not Action.WHERE:
            _ = self._stop
        if action in (Action.COMMAND, Action.CONTINUE):
            self._needs_keyboard()
        asker = Asker(self._switchboard, timeout)
        return await ask_one(asker, action, rank, text, inquiry=inquiry, frame=frame or self._frame(action))


@asynccontextmanager
async def open_stop(
    switchboard: Switchboard, rank: RankInfo, engine: str | None, *, take: bool
) -> AsyncIterator[AsyncStop]:
    """Hold the keyboard of a rank over a separate connection until the block ends.

    Raises KeyboardTaken if another terminal has the keyboard and ``take`` is not set, and errors of the connection.
    """
    own = switchboard.another()
    await own.open()
    try:
        seat = Seat(own, rank, Mode.TAKE if take else Mode.DRIVE, spec=EngineSpec(asked=engine))
        async with seat.held():
            await seat.hold_keyboard()
            yield AsyncStop(own, seat)
    finally:
        await own.close()
