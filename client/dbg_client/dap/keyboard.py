"""The keyboard of the rank on which the window has acted last, so that terminals see who drives it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from dbg_client.attachment.attachment import Attachment
from dbg_client.attachment.effects import Effect, Note
from dbg_client.core.link import Event
from dbg_client.core.waiting import until_stopped
from dbg_client.dap.window import Window
from dbg_client.driving import Driving
from dbg_client.errors import TimedOut
from dbg_client.words.engine import Wish
from dbg_wire.codec import Output
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.messages import Mode
from dbg_wire.records.ranks import RankInfo
from dbg_wire.tables.engines import PDB

SIZE = (24, 80)
"""Rows and columns that a window offers a debugger; it shows values and no screen."""

MAX_NOTE = 600
"""Characters of a notice: two names and a command."""

OPEN_SECONDS = 5.0
"""Seconds for a debugger to open at a rank; after them the rank is asked all the same, and says what it does."""


class Keyboard:
    """The seat of the window at one rank, on the window's own connection; watches the broker."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._driving: Driving | None = None
        self._failed: BaseException | None = None
        self._changing = asyncio.Lock()
        self._coming: asyncio.Task[None] | None = None
        """Takes the keyboard of the rank that was broken into last."""
        self._was_driving = False
        self._given: tuple[str, str | None] | None = None
        """The rank whose keyboard this window has left, and its own name, as long as the broker's list is behind."""
        self._drawn: int | None = None
        """The debugger's session that has shown something at this seat."""

    @property
    def _attachment(self) -> Attachment | None:
        return self._driving.attachment if self._driving is not None else None

    def is_ours(self, rank: RankInfo) -> bool:
        """Tell whether this window has the keyboard of a rank."""
        attachment = self._attachment
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
        driving, self._driving = self._driving, None
        self._was_driving = False
        if driving is None:
            return None
        driving.end()
        attachment = driving.attachment
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

    def opened(self) -> None:
        """Do nothing: the seat is waited for."""

    def finished(self, error: DbgError | None) -> None:
        """Leave the keyboard with its rank."""
        self._failed = error
        self.give()

    def failed(self, error: BaseException) -> None:
        """Leave the keyboard, and have what waits for it fail."""
        self._failed = error
        self.give()

    def show(self, effect: Effect) -> None:
        """Print in the debug console what a terminal would show as a notice; a window shows no screen."""
        if isinstance(effect, Note):
            self._window.tell(printable(effect.text, MAX_NOTE))

    async def changed(self, event: Event | None) -> None:
        """Take note of what the debugger shows, and of who types."""
        if isinstance(event, Output):
            self._drawn = event.session
        self._tell_turn()

    # ----------------------------------------------------------------------------------------------------------- inner

    def _forget_given(self) -> None:
        if self._given is not None:
            rank = self._window.switchboard.directory.by_key.get(self._given[0])
            if rank is None or rank.driver != self._given[1]:
                self._given = None

    async def _attach(self, rank: RankInfo, mode: Mode) -> None:
        # A connection has one seat, and the new one replaces it.
        attachment = Attachment(rank, mode, SIZE, colors=8, wish=Wish(default=PDB))
        self.give()
        self._failed, self._drawn = None, None
        self._driving = Driving(self._window.switchboard, attachment, self)
        self._driving.begin()
        seconds = self._window.switchboard.seconds

        def is_seated() -> bool | None:
            if self._failed is not None:
                raise self._failed
            return attachment.opened or None

        try:
            await self._window.switchboard.until(is_seated, seconds)
        except asyncio.TimeoutError:
            self.give()
            raise TimedOut(f"{printable(rank.address)} gave no seat within {seconds:g} s") from None
        if not attachment.driving:
            driver = attachment.driver
            self.give()
            raise _types(driver, rank)
        with suppress(asyncio.TimeoutError):
            await self._window.switchboard.until(lambda: self._is_open(attachment) or None, OPEN_SECONDS)

    def _is_open(self, attachment: Attachment) -> bool:
        """Tell whether the debugger waits for the user: its session is told before it has come to its line."""
        report = attachment.report
        if report is None or report.stop is None or self._attachment is not attachment:
            return True
        session = report.session
        return report.prompt is not None or (session is not None and session.number == self._drawn)

    def _tell_turn(self) -> None:
        """Tell the user when somebody takes the keyboard."""
        attachment = self._attachment
        if attachment is None:
            return
        had, self._was_driving = self._was_driving, attachment.driving
        if had and not attachment.driving:
            who = printable(attachment.driver) if attachment.driver else "Somebody"
            self._window.tell(
                f"{who} has taken the keyboard of {printable(attachment.rank.address)}; `take` takes it back.",
                "important",
            )


def _types(driver: str | None, rank: RankInfo) -> BadInput:
    who = printable(driver) if driver else "another terminal"
    return BadInput(
        f"{who} types at {printable(rank.address)}", "write `take` in the debug console to take the keyboard"
    )
