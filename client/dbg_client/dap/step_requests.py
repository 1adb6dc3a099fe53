"""Step, continue and pause requests, and the keyboard that they need. Each request is for one rank only."""

from __future__ import annotations

import asyncio

from dbg_client.api.answers import safe_text
from dbg_client.api.inspection import RankError
from dbg_client.core.errors import TimedOut
from dbg_client.core.link import Event
from dbg_client.dap.messages import Message
from dbg_client.dap.window import Threads, Window
from dbg_client.seat.effects import Effect, Finish, Note
from dbg_client.seat.seat import KeyboardTaken, Seat
from dbg_client.verbs.preferences import EngineSpec
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.messages import Action, Kind, Mode
from dbg_wire.records.ranks import PDB, RankInfo, RankState

MAX_NOTE = 600
"""Maximum length of a notice, in characters: two names and a command."""

STEPS = {"next": "step over", "stepIn": "step in", "stepOut": "step out"}
"""Step requests of the IDE, and the rank's command for each. After these commands a rank stops at the start of a line.

IDE users expect that.
"""


class Keyboard:
    """The window's seat at one rank, on the window's own connection."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._seat: Seat | None = None
        self._was_driving = False
        self._changing = asyncio.Lock()
        self._own_name: str | None = None
        """Name of this window as a driver in the broker's list, known once the window has released a keyboard.

        The list may be older than the release, and still contain this name.
        """

    def is_ours(self, rank: RankInfo) -> bool:
        """Return True if this window has the keyboard of a rank."""
        attachment = self._seat.attachment if self._seat is not None else None
        return attachment is not None and attachment.rank.key == rank.key and attachment.driving

    def require_free(self, rank: RankInfo) -> None:
        """Raise BadInput if another terminal or program has the keyboard of the rank."""
        if not self.is_ours(rank) and rank.driver not in (None, self._own_name):
            raise _types(rank.driver, rank)

    async def hold(self, rank: RankInfo) -> None:
        """Acquire the keyboard of a rank and open its debugger; release the keyboard of another rank.

        This may move a rank that is stopped in ``set_trace()`` to the next line. Raises BadInput if another terminal or
        program has the keyboard. With a watcher's token nothing happens; the broker rejects the request that follows.
        """
        if not self._window.may_act:
            return
        async with self._changing:
            if not self.is_ours(rank):
                self.require_free(rank)
                await self._attach(rank, Mode.DRIVE)

    async def seize(self, rank: RankInfo) -> None:
        """Take the keyboard of a rank from the terminal or program that has it.

        Raises DbgError if the broker refuses.
        """
        async with self._changing:
            if not self.is_ours(rank):
                await self._attach(rank, Mode.TAKE)

    def give(self) -> RankInfo | None:
        """Release the keyboard, and return the rank that it belonged to, or None if this window had no keyboard."""
        seat, self._seat = self._seat, None
        if seat is None:
            return None
        seat.end()
        self._was_driving = False
        attachment = seat.attachment
        if not attachment.driving:
            return None
        self._own_name = attachment.driver
        return attachment.rank

    def close(self) -> None:
        """Release the keyboard; the rank stays as it is."""
        self.give()

    # ----------------------------------------------------------------------------------------------------------- inner

    async def _attach(self, rank: RankInfo, mode: Mode) -> None:
        # A connection has one seat, so release the old one first.
        self.give()
        seat = self._seat = Seat(
            self._window.switchboard, rank, mode, spec=EngineSpec(default=PDB), show=self._show, changed=self._changed
        )
        seat.start()
        try:
            await seat.hold_keyboard()
        except TimedOut:
            self.give()
            raise
        except KeyboardTaken as taken:
            self.give()
            raise _types(taken.driver, rank) from None

    def _show(self, effect: Effect) -> None:
        """Print a notice of the seat in the debug console; release the keyboard when the seat has ended."""
        if isinstance(effect, Note):
            self._window.write(printable(effect.text, MAX_NOTE))
        elif isinstance(effect, Finish):
            self.give()

    async def _changed(self, event: Event | None) -> None:
        """Inform the user when another terminal or program takes the keyboard."""
        if self._seat is None:
            return
        attachment = self._seat.attachment
        had, self._was_driving = self._was_driving, attachment.driving
        if had and not attachment.driving:
            who = printable(attachment.driver) if attachment.driver else "Somebody"
            self._window.write(
                f"{who} has taken the keyboard of {printable(attachment.rank.address)}; to take it back, write `take`",
                "important",
            )


def _types(driver: str | None, rank: RankInfo) -> BadInput:
    who = printable(driver) if driver else "another terminal"
    return BadInput(
        f"{who} types at {printable(rank.address)}", "write `take` in the debug console to take the keyboard"
    )


class StepRequests:
    """Requests that move ranks; each is answered at once, and a later event reports where the rank stops."""

    def __init__(self, window: Window, threads: Threads, keyboard: Keyboard) -> None:
        self._window = window
        self._threads = threads
        self._keyboard = keyboard
        self._open: set[asyncio.Task[None]] = set()

    async def step(self, request: str, arguments: Message) -> None:
        """Carry out ``next``, ``stepIn`` or ``stepOut``."""
        rank = self._threads.stopped_rank(arguments.get("threadId"))
        if rank.state is RankState.HELD:
            raise BadInput(f"{printable(rank.address)} is held, waiting for other ranks", "to resume it, use continue")
        if not self._window.may_act:
            # The token does not permit a step. Request it nevertheless: the broker's refusal becomes the response.
            await self._window.ask_one(Action.COMMAND, rank, STEPS[request])
            return
        self._threads.start_move(rank, is_step=True)
        try:
            has_moved = await self._open_debugger(rank)
        except BaseException:
            self._end(rank, failed=True)
            raise
        if has_moved and request != "stepOut":
            # Opening the debugger has moved the rank from set_trace() to the next line, which is the requested step.
            asyncio.get_running_loop().call_soon(self._end, rank)
        else:
            self._start(rank, Action.COMMAND, STEPS[request])

    async def go_on(self, arguments: Message) -> Message:
        """Carry out ``continue``: resume a stopped rank, or release a held one."""
        rank = self._threads.stopped_rank(arguments.get("threadId"))
        self._keyboard.require_free(rank)
        action = Action.RELEASE if rank.state is RankState.HELD else Action.CONTINUE
        if self._window.may_act:
            # If this window kept the keyboard, a debugger would open at the rank's next stop and move the rank.
            if self._keyboard.is_ours(rank):
                self._keyboard.give()
            self._threads.start_move(rank, is_step=False)
            self._start(rank, action)
        else:
            await self._window.ask_one(action, rank)
        return {"allThreadsContinued": False}

    async def pause(self, arguments: Message) -> None:
        """Carry out ``pause``: interrupt a rank."""
        rank = self._threads.rank(arguments.get("threadId"))
        self._threads.table.expect_stop(rank.key)
        (answer,) = await self._window.asker().ask(Action.INTERRUPT, [rank])
        if answer.kind is Kind.RUNNING:
            self._window.write(f"{printable(rank.address)}: {safe_text(answer.text)}")
        elif answer.kind is not Kind.VALUE:
            raise RankError(rank.address, answer.text, answer.kind.value)

    def close(self) -> None:
        """Cancel all open requests; ranks keep moving or stay stopped."""
        for task in list(self._open):
            task.cancel()

    async def _open_debugger(self, rank: RankInfo) -> bool:
        """Acquire the keyboard of a rank and open its debugger; return True if that has moved the rank."""
        await self._keyboard.hold(rank)
        if rank.engine is not None:
            return False
        # Ask the rank, because the list may be older than the debugger's output.
        frames = (await self._window.ask_one(Action.WHERE, rank)).frames
        return bool(frames) and frames[-1] != rank.where

    def _start(self, rank: RankInfo, action: Action, text: str = "") -> None:
        task = asyncio.create_task(self._finish(rank, action, text))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _finish(self, rank: RankInfo, action: Action, text: str) -> None:
        failed = False
        try:
            await self._window.ask_one(action, rank, text)
        except RankError as error:
            # Without an answer in time the step continues, and its end is reported like any other stop.
            failed = error.kind == Kind.ERROR.value
            if failed:
                self._window.write(str(error), "important")
        except DbgError as error:
            failed = True
            self._window.write(str(error), "important")
        self._end(rank, failed=failed)

    def _end(self, rank: RankInfo, *, failed: bool = False) -> None:
        self._threads.table.end_move(rank.key, failed=failed)
        self._threads.refresh()
