"""One seat at a rank, for a terminal, a program, an IDE or a page: its events, its effects, and its end.

A seat joins the pure :class:`~dbg_client.seat.attachment.Attachment` to the broker's link. Its user does three things:

1. Pass ``show``, which receives every effect except those for the broker, in order. ``Open`` is first for each rank.
   ``Finish`` is last. Its ``error`` is None if the rank resumed, a DbgError if the seat was refused or the rank has
   exited, and another exception for a bug.
2. Request the seat, with ``async with seat.held():`` or with ``start()`` and ``end()``. ``end()`` does not change the
   state of the rank.
3. Carry out what the attachment returns: ``seat.perform(seat.attachment.keys(b"n", seat.now()))``.

``changed`` is awaited after each event, and each second with None, so that a display can show the state. A program
without a screen waits instead, with :meth:`Seat.hold_keyboard` and :meth:`Seat.next_stop`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress

from dbg_client.core.choose import is_ready
from dbg_client.core.directory import LISTS
from dbg_client.core.errors import Declined, RankEnded, RankVanished, TimedOut
from dbg_client.core.link import Down, Event, SeatDown, SeatUp, Up
from dbg_client.core.switchboard import Switchboard
from dbg_client.core.wait_progress import cancel_and_wait
from dbg_client.seat.attachment import Attachment
from dbg_client.seat.effects import Effect, Effects, Finish, Open, Send, Wake
from dbg_client.verbs.preferences import ANY_ENGINE, EngineSpec
from dbg_wire.codec import Output
from dbg_wire.errors import DbgError, printable
from dbg_wire.messages import Attach, Mode, StopInfo
from dbg_wire.records.ranks import RankInfo, RankState

TICK_SECONDS = 1.0
"""Seconds between two ticks. A tick ends an overlong wait for a lost rank, and updates the seconds in a status line."""

SIZE = (24, 80)
"""Rows and columns that a program offers to a debugger; the program reads values and shows no screen."""

OPEN_SECONDS = 5.0
"""Timeout for a debugger to open, in seconds. Then questions are sent anyway; the rank answers like a running rank."""

AGAIN_SECONDS = 1.0
"""Seconds after which a seat that the broker refused is requested again."""

Show = Callable[[Effect], None]
"""Function that receives the effects for the user of a seat."""

Changed = Callable[[Event | None], Awaitable[None]]
"""Function that is called after each event, and with None each second, to follow changes at a seat."""


class KeyboardTaken(DbgError):
    """Raised when another terminal has the keyboard of the rank, and the caller does not take it."""

    exit_status = 5

    def __init__(self, address: str, driver: str | None) -> None:
        super().__init__(address, driver)
        self.address = address
        self.driver = driver

    def __str__(self) -> str:
        who = printable(self.driver) if self.driver else "another terminal"
        return f"{who} has the keyboard of {printable(self.address)}; attach with take=True to take it"


def show_nothing(effect: Effect) -> None:
    """Drop an effect. A program passes this as :data:`Show`, because it reads values and shows no screen."""


class Seat:
    """The seat of one terminal or program at one rank after another, over one connection.

    Belongs to one event loop. ``spec`` is the debugger to open, ``frame`` the frame to open it at. ``prefix`` is the
    escape key's name, for notices. ``startup`` returns the first commands for a rank's line debugger.
    """

    def __init__(
        self,
        switchboard: Switchboard,
        rank: RankInfo,
        mode: Mode,
        *,
        size: tuple[int, int] = SIZE,
        colors: int = 8,
        spec: EngineSpec = ANY_ENGINE,
        frame: str = "",
        prefix: str = "",
        startup: Callable[[str], deque[str]] = lambda _: deque(),
        show: Show = show_nothing,
        changed: Changed | None = None,
    ) -> None:
        self.is_over = False
        self.error: BaseException | None = None
        self._switchboard = switchboard
        self._mode, self._colors, self._spec = mode, colors, spec
        self._prefix, self._startup = prefix, startup
        self._show, self._changed = show, changed
        self._drawn: int | None = None
        """Number of the debugger's session that sent the latest output to this seat."""
        self._loop = asyncio.get_running_loop()
        self._ticking: asyncio.Task[None] | None = None
        self._watching = ExitStack()
        self.attachment = self._attachment_to(rank, mode, size, frame)

    def now(self) -> float:
        """Return monotonic seconds."""
        return self._loop.time()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Request the seat, and end it when the block ends; the rank stays as it is."""
        try:
            self.start()
            yield
        finally:
            ticking = self._ticking
            self.end()
            await cancel_and_wait(ticking)

    def start(self) -> None:
        """Request the seat, and follow its events until :meth:`end`."""
        self._ticking = self._loop.create_task(self.watched(self._tick()))
        self._watching.enter_context(self._switchboard.watched_by(self.receive))
        self.perform(self.attachment.attach())

    def end(self) -> None:
        """End the seat; the rank stays as it is. A second call does nothing."""
        ticking, self._ticking = self._ticking, None
        if ticking is None:
            return
        ticking.cancel()
        self._watching.close()
        self.perform(self.attachment.leave())

    def go_to(self, rank: RankInfo, mode: Mode) -> None:
        """Request a seat at another rank, or in another mode, instead of the present one."""
        self.is_over = False
        self.attachment = self._attachment_to(rank, mode, self.attachment.size)
        self.perform(self.attachment.attach())

    def perform(self, effects: Effects) -> None:
        """Carry out effects, in order; effects after the end are dropped."""
        for effect in effects:
            if isinstance(effect, Send):
                is_sent = self._switchboard.send(effect.item)
                if not is_sent and isinstance(effect.item, Attach):
                    self.attachment.link_down(self._switchboard.directory.away or "", self.now())
            elif isinstance(effect, Wake):
                self._loop.call_later(effect.seconds, self._wake)
            elif isinstance(effect, Finish):
                self._finish(effect)
                return
            else:
                if isinstance(effect, Open):
                    self.is_over, self.error = False, None
                self._show(effect)

    def _finish(self, effect: Finish) -> None:
        self.is_over, self.error = True, effect.error
        self._show(effect)

    # ---------------------------------------------------------------------------------------------------- waiting

    async def hold_keyboard(self) -> None:
        """Wait for the seat, its keyboard, and the debugger.

        Raises TimedOut, KeyboardTaken, or the reason why the rank can't be attached to.
        """
        attachment, seconds = self.attachment, self._switchboard.seconds

        def is_seated() -> bool | None:
            if self.error is not None:
                raise self.error
            return attachment.opened or None

        try:
            await self._switchboard.until(is_seated, seconds)
        except TimeoutError:
            raise TimedOut(f"{printable(attachment.rank.address)} did not open a seat within {seconds:g} s") from None
        if not attachment.driving:
            raise KeyboardTaken(attachment.rank.address, attachment.driver)
        await self._wait_for_debugger()

    async def next_stop(self, left: int | None, seconds: float | None) -> StopInfo:
        """Wait for the rank's next stop, and return it.

        ``left`` is the number of the stop that the caller already knows, None if there is none. If the seat has ended,
        it is requested again. Raises TimedOut after ``seconds``, RankEnded, RankVanished, and Declined if the broker
        still refuses the seat after ``seconds``.
        """
        ends = None if seconds is None else self.now() + seconds
        while True:
            try:
                remaining = None if ends is None else max(0.0, ends - self.now())
                stop = await self._switchboard.until(lambda: self._stop_after(left), remaining)
                break
            except TimeoutError:
                address = printable(self.attachment.rank.address)
                raise TimedOut(f"{address} did not stop within {seconds:g} s") from None
            except Declined:
                # The rank has no free seat at the moment, or has just moved to another broker.
                if ends is not None and ends - self.now() <= AGAIN_SECONDS:
                    raise
            await asyncio.sleep(AGAIN_SECONDS)
            self.go_to(self.rank, self._mode)
        await self._wait_for_debugger()
        return self._stop_after(left) or stop

    @property
    def rank(self) -> RankInfo:
        """The rank, as the broker lists it now."""
        return self._switchboard.directory.by_key.get(self.attachment.rank.key, self.attachment.rank)

    def _stop_after(self, left: int | None) -> StopInfo | None:
        rank, report = self.rank, self.attachment.report
        if rank.state is RankState.EXITED:
            raise RankEnded(rank)
        if self.error is not None and not isinstance(self.error, DbgError):
            raise self.error
        if self.is_over:
            if rank.key not in self._switchboard.directory.by_key:
                raise RankVanished(rank.address)
            if is_ready(rank):
                if isinstance(self.error, Declined):
                    raise self.error
                self.go_to(rank, self._mode)
            return None
        if report is None or report.stop is None or not self.attachment.opened or report.stop.number == left:
            return None
        return report.stop

    async def _wait_for_debugger(self) -> None:
        """Wait until the debugger is open at the stop: before that, the rank answers questions like a running rank."""
        with suppress(TimeoutError):
            await self._switchboard.until(lambda: self._waits_for_user() or None, OPEN_SECONDS)

    def _waits_for_user(self) -> bool:
        # After `set_trace()` the program runs to the next line before the debugger opens.
        report = self.attachment.report
        if self.is_over or self._ticking is None or report is None or report.stop is None or report.prompt is not None:
            return True
        return report.session is not None and report.session.number == self._drawn

    # ----------------------------------------------------------------------------------------------------------- events

    async def receive(self, event: Event) -> None:
        """Handle an event of the broker's link; an error ends the seat."""
        if self._ticking is None:
            return  # another receiver of the same event has ended this seat
        await self.watched(self._receive(event))

    async def watched(self, part: Awaitable[None]) -> None:
        """Run a part of the seat's work; its error ends the seat."""
        try:
            await part
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._finish(Finish(error))

    async def _receive(self, event: Event) -> None:
        now = self.now()
        if isinstance(event, (Up, SeatUp)):
            self.attachment.link_up(now)
        elif isinstance(event, (Down, SeatDown)):
            self.attachment.link_down(event.reason, now)
        elif isinstance(event, Output):
            self._drawn = event.session
            self.perform(self.attachment.output(event, now))
        else:
            if isinstance(event, LISTS):
                self._list_changed(now)
            self.perform(self.attachment.message(event, now))
        await self._follow(event)

    def _list_changed(self, now: float) -> None:
        directory = self._switchboard.directory
        if directory.complete and self.attachment.away.link_down_since is None:
            self.perform(self.attachment.rank_listed(directory.by_key.get(self.attachment.rank.key), now))

    async def _follow(self, event: Event | None) -> None:
        self.attachment.away.broker_silent_since = self._switchboard.silent_since
        if self._changed is not None:
            await self._changed(event)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._wake()
            await self._follow(None)

    def _wake(self) -> None:
        if self._ticking is not None:
            self.perform(self.attachment.tick(self.now()))

    def _attachment_to(self, rank: RankInfo, mode: Mode, size: tuple[int, int], frame: str = "") -> Attachment:
        return Attachment(
            rank,
            mode,
            size,
            colors=self._colors,
            prefix=self._prefix,
            spec=self._spec,
            frame=frame,
            startup=self._startup(rank.key),
        )
