"""One seat at a rank: the attachment of a terminal or a program, joined to the broker's link until both are left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Protocol

from dbg_client.core.directory import LISTS
from dbg_client.core.errors import TimedOut
from dbg_client.core.link import Down, Event, SeatDown, SeatUp, Up
from dbg_client.core.switchboard import Switchboard
from dbg_client.seat.attachment import Attachment
from dbg_client.seat.effects import Effect, Effects, Finish, Open, Send, Wake
from dbg_client.verbs.preferences import Wish
from dbg_wire.codec import Output
from dbg_wire.errors import DbgError, printable
from dbg_wire.messages import Attach, Mode
from dbg_wire.records.ranks import RankInfo

TICK_SECONDS = 1.0
"""Seconds between two looks at the clock: a rank's grace period ends, and a status line counts seconds."""

SIZE = (24, 80)
"""Rows and columns that a program offers a debugger; it reads values and shows no screen."""

OPEN_SECONDS = 5.0
"""Seconds for a debugger to open; after them the rank is asked all the same, and says what it does."""


class Face(Protocol):
    """What sits at the rank: a terminal's session, a program's stop, a keyboard of an IDE."""

    def opened(self) -> None:
        """Take note that the seat is there; comes once for each rank attached to."""

    def finished(self, error: DbgError | None) -> None:
        """Take note that the rank is left; ``error`` has the sentence, None: it went on."""

    def failed(self, error: BaseException) -> None:
        """Take note of a fault of ours, after which the attachment is of no use."""

    def show(self, effect: Effect) -> None:
        """Carry out an effect that is about the screen."""

    async def changed(self, event: Event | None) -> None:
        """Follow what may have changed at the attachment: after each event, and each second (None)."""


class Driving:
    """Feed an attachment with what the broker says and with time, and carry out what follows, until it is left.

    Belongs to one event loop. The connection of ``switchboard`` has this one seat. Effects that are about a screen, and
    the beginning and the end of the seat, go to ``face``.
    """

    def __init__(self, switchboard: Switchboard, attachment: Attachment, face: Face) -> None:
        self.attachment = attachment
        self._switchboard = switchboard
        self._face = face
        self._loop = asyncio.get_running_loop()
        self._ticking: asyncio.Task[None] | None = None
        self._watching = ExitStack()

    def now(self) -> float:
        """Return monotonic seconds."""
        return self._loop.time()

    @asynccontextmanager
    async def seated(self) -> AsyncIterator[None]:
        """Ask for the seat, and leave the rank as it is when the block ends."""
        try:
            self.begin()
            yield
        finally:
            ticking = self._ticking
            self.end()
            await asyncio.gather(*[task for task in (ticking,) if task is not None], return_exceptions=True)

    def begin(self) -> None:
        """Ask for the seat, and follow what happens there until :meth:`end`."""
        self._ticking = self._loop.create_task(self.watched(self._tick()))
        self._watching.enter_context(self._switchboard.watched_by(self.receive))
        self.perform(self.attachment.attach())

    def end(self) -> None:
        """Leave the rank as it is; a second call does nothing."""
        ticking, self._ticking = self._ticking, None
        if ticking is None:
            return
        ticking.cancel()
        self._watching.close()
        self.perform(self.attachment.leave())

    def go_to(self, attachment: Attachment) -> None:
        """Ask for the seat of another attachment in place of the present one."""
        self.attachment = attachment
        self.perform(attachment.attach())

    def perform(self, effects: Effects) -> None:
        """Carry out effects, in order; nothing follows the end."""
        for effect in effects:
            if isinstance(effect, Send):
                is_sent = self._switchboard.send(effect.item)
                if not is_sent and isinstance(effect.item, Attach):
                    self.attachment.link_down(self._switchboard.directory.away or "", self.now())
            elif isinstance(effect, Wake):
                self._loop.call_later(effect.seconds, self._wake)
            elif isinstance(effect, Open):
                self._face.opened()
            elif isinstance(effect, Finish):
                self._face.finished(effect.error)
                return
            else:
                self._face.show(effect)

    async def receive(self, event: Event) -> None:
        """Take what comes from the broker; an error is the face's."""
        if self._ticking is None:
            return  # another watcher of the same event has ended this one
        await self.watched(self._receive(event))

    async def watched(self, part: Awaitable[None]) -> None:
        """Run a part of what sits at the rank; an error of it is the face's."""
        try:
            await part
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._face.failed(error)

    async def _receive(self, event: Event) -> None:
        now = self.now()
        if isinstance(event, (Up, SeatUp)):
            self.attachment.link_up(now)
        elif isinstance(event, (Down, SeatDown)):
            self.attachment.link_down(event.reason, now)
        elif isinstance(event, Output):
            self.perform(self.attachment.output(event, now))
        else:
            if isinstance(event, LISTS):
                self._list_changed(now)
            self.perform(self.attachment.message(event, now))
        await self._face.changed(event)

    def _list_changed(self, now: float) -> None:
        directory = self._switchboard.directory
        if directory.complete and self.attachment.away.link_down_since is None:
            self.perform(self.attachment.rank_listed(directory.by_key.get(self.attachment.rank.key), now))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._wake()
            await self._face.changed(None)

    def _wake(self) -> None:
        if self._ticking is not None:
            self.perform(self.attachment.tick(self.now()))


class ProgramSeat:
    """The seat of a program or an IDE, which shows no screen: whether it is there, and why it is not."""

    def __init__(self, switchboard: Switchboard, rank: RankInfo, mode: Mode, wish: Wish) -> None:
        self.is_over = False
        self.error: BaseException | None = None
        self._drawn: int | None = None
        """The debugger's session that has shown something at this seat."""
        self._switchboard = switchboard
        self._mode, self._wish = mode, wish
        self.driving = Driving(switchboard, self._attachment_to(rank), self)

    @property
    def attachment(self) -> Attachment:
        """Return what is known of the rank."""
        return self.driving.attachment

    async def wait_until_seated(self) -> None:
        """Wait for the seat, with or without the keyboard. Raises TimedOut, or why the rank can't be attached to."""
        attachment, seconds = self.attachment, self._switchboard.seconds

        def is_seated() -> bool | None:
            if self.error is not None:
                raise self.error
            return attachment.opened or None

        try:
            await self._switchboard.until(is_seated, seconds)
        except TimeoutError:
            raise TimedOut(f"{printable(attachment.rank.address)} gave no seat within {seconds:g} s") from None

    async def wait_for_debugger(self) -> None:
        """Wait until the debugger is open at the stop: what is asked before that is answered as by a running rank."""
        with suppress(TimeoutError):
            await self._switchboard.until(lambda: self._waits_for_user() or None, OPEN_SECONDS)

    def take_again(self, rank: RankInfo) -> None:
        """Ask for the seat anew, at the rank as it is now."""
        self.is_over = False
        self.driving.go_to(self._attachment_to(rank))

    def opened(self) -> None:
        """Take note that the seat is there."""
        self.is_over, self.error = False, None

    def finished(self, error: DbgError | None) -> None:
        """Take note that the stop is over."""
        self.is_over, self.error = True, error

    def failed(self, error: BaseException) -> None:
        """Have what waits for the seat fail, and the program's next call."""
        self.is_over, self.error = True, error

    def show(self, effect: Effect) -> None:
        """Show nothing: a program reads values and not screens."""

    async def changed(self, event: Event | None) -> None:
        """Take note that the debugger shows something."""
        if isinstance(event, Output):
            self._drawn = event.session

    def _waits_for_user(self) -> bool:
        """Tell whether the debugger is open: behind ``set_trace()`` the program runs to the next line first."""
        report = self.attachment.report
        if self.is_over or report is None or report.stop is None or report.prompt is not None:
            return True
        return report.session is not None and report.session.number == self._drawn

    def _attachment_to(self, rank: RankInfo) -> Attachment:
        return Attachment(rank, self._mode, SIZE, colors=8, wish=self._wish)
