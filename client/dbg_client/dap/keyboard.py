"""The keyboard of the rank on which the window has acted last, so that terminals see who drives it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dbg_client.attachment.driving import ProgramSeat
from dbg_client.attachment.effects import Effect, Note
from dbg_client.core.link import Event
from dbg_client.core.waiting import until_stopped
from dbg_client.dap.window import Window
from dbg_client.errors import TimedOut
from dbg_client.words.engine import Wish
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.messages import Mode
from dbg_wire.records.ranks import RankInfo
from dbg_wire.tables.engines import PDB

MAX_NOTE = 600
"""Characters of a notice: two names and a command."""


class _Seat(ProgramSeat):
    """The seat of a window: notices are lines of the debug console, and a keyboard that is taken is told there."""

    def __init__(self, window: Window, rank: RankInfo, mode: Mode, left: Callable[[], object]) -> None:
        super().__init__(window.switchboard, rank, mode, Wish(default=PDB))
        self._window = window
        self._left = left
        self._was_driving = False

    def finished(self, error: DbgError | None) -> None:
        """Leave the keyboard with its rank."""
        super().finished(error)
        self._left()

    def failed(self, error: BaseException) -> None:
        """Leave the keyboard, and have what waits for it fail."""
        super().failed(error)
        self._left()

    def show(self, effect: Effect) -> None:
        """Print in the debug console what a terminal would show as a notice; a window shows no screen."""
        if isinstance(effect, Note):
            self._window.tell(printable(effect.text, MAX_NOTE))

    async def changed(self, event: Event | None) -> None:
        """Take note of what the debugger shows, and tell the user when somebody takes the keyboard."""
        await super().changed(event)
        attachment = self.attachment
        had, self._was_driving = self._was_driving, attachment.driving
        if had and not attachment.driving and not self.is_over:
            who = printable(attachment.driver) if attachment.driver else "Somebody"
            self._window.tell(
                f"{who} has taken the keyboard of {printable(attachment.rank.address)}; `take` takes it back.",
                "important",
            )


class Keyboard:
    """The seat of the window at one rank, on the window's own connection; watches the broker."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._seat: _Seat | None = None
        self._changing = asyncio.Lock()
        self._coming: asyncio.Task[None] | None = None
        """Takes the keyboard of the rank that was broken into last."""
        self._given: tuple[str, str | None] | None = None
        """The rank whose keyboard this window has left, and its own name, as long as the broker's list is behind."""

    def is_ours(self, rank: RankInfo) -> bool:
        """Tell whether this window has the keyboard of a rank."""
        attachment = self._seat.attachment if self._seat is not None else None
        return attachment is not None and attachment.rank.key == rank.key and attachment.driving

    def require_free(self, rank: RankInfo) -> None:
        """Raise BadInput where somebody else types at a rank."""
        is_left = self._given == (rank.key, rank.driver)
        if not self.is_ours(rank) and rank.driver is not None and not is_left:
            raise _types(rank.driver, rank)

    async def hold(self, rank: RankInfo) -> None:
        """Have the keyboard of a rank, and its debugger open; the keyboard of another rank is left.

        Where a program has called ``set_trace()`` the rank may be at the next line then. Raises BadInput where somebody
        else types. A watcher's token gives no keyboard: nothing is asked then, and the broker refuses what follows.
        """
        if not self._window.may_act:
            return
        async with self._changing:
            if not self.is_ours(rank):
                self.require_free(rank)
                await self._attach(rank, Mode.DRIVE)

    async def hold_if_open(self, rank: RankInfo) -> None:
        """Have the keyboard of a rank whose debugger is open; another one is not moved for it. Raises BadInput."""
        if rank.engine is not None:
            await self.hold(rank)
        else:
            self.require_free(rank)

    async def seize(self, rank: RankInfo) -> None:
        """Take the keyboard of a rank from the terminal or program that has it.

        Raises a DbgError if the broker does not give it.
        """
        async with self._changing:
            if not self.is_ours(rank):
                await self._attach(rank, Mode.TAKE)

    async def seize_at_stop(self, rank: RankInfo, *, has_stopped: bool) -> None:
        """Take the keyboard of a rank that this window has broken into, now or once it has stopped.

        A terminal that follows the job goes to this stop, too, and may be there first. Why the keyboard can't be had is
        told in the console: the rank stands all the same.
        """
        self._forget_break_in()
        self._coming = asyncio.create_task(self._seize_at_stop(rank))
        if has_stopped:
            await asyncio.wait([self._coming])

    async def _seize_at_stop(self, rank: RankInfo) -> None:
        try:
            await self.seize(await until_stopped(self._window.switchboard, rank))
        except DbgError as error:
            self._window.tell(str(error))

    def _forget_break_in(self) -> None:
        if self._coming is not None:
            self._coming.cancel()

    def give(self) -> RankInfo | None:
        """Leave the keyboard; return the rank at which it was, None if there was none."""
        seat, self._seat = self._seat, None
        if seat is None:
            return None
        seat.is_over = True
        seat.driving.end()
        attachment = seat.attachment
        if not attachment.driving:
            return None
        self._given = attachment.rank.key, attachment.driver
        return attachment.rank

    def close(self) -> None:
        """Leave the keyboard; the rank stays as it is."""
        self._forget_break_in()
        self.give()

    # ------------------------------------------------------------------------------------------------------ the broker

    async def take(self, event: Event) -> None:
        """Look whether the broker's list knows by now that the keyboard was left."""
        self._forget_given()

    # ----------------------------------------------------------------------------------------------------------- inner

    def _forget_given(self) -> None:
        if self._given is not None:
            rank = self._window.switchboard.directory.by_key.get(self._given[0])
            if rank is None or rank.driver != self._given[1]:
                self._given = None

    async def _attach(self, rank: RankInfo, mode: Mode) -> None:
        # A connection has one seat, and the new one replaces it.
        self.give()
        seat = self._seat = _Seat(self._window, rank, mode, self.give)
        seat.driving.begin()
        try:
            await seat.wait_until_seated()
        except TimedOut:
            self.give()
            raise
        if not seat.attachment.driving:
            driver = seat.attachment.driver
            self.give()
            raise _types(driver, rank)
        await seat.wait_for_debugger()


def _types(driver: str | None, rank: RankInfo) -> BadInput:
    who = printable(driver) if driver else "another terminal"
    return BadInput(
        f"{who} types at {printable(rank.address)}", "write `take` in the debug console to take the keyboard"
    )
