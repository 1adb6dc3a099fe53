"""Steps, continue and pause, of one rank each whatever the IDE asks for; and the keyboard that they need."""

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
from dbg_client.verbs.preferences import Wish
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.messages import Action, Kind, Mode
from dbg_wire.records.ranks import PDB, RankInfo, RankState

MAX_NOTE = 600
"""Characters of a notice: two names and a command."""

STEPS = {"next": "step over", "stepIn": "step in", "stepOut": "step out"}
"""The requests that are steps, and the rank's commands for them, which end at lines as IDEs' users expect."""


class Keyboard:
    """The seat of the window at one rank, on the window's own connection."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._seat: Seat | None = None
        self._was_driving = False
        self._changing = asyncio.Lock()
        self._own_name: str | None = None
        """The name by which the broker's list has this window, once it had a keyboard; the list may be behind."""

    def is_ours(self, rank: RankInfo) -> bool:
        """Tell whether this window has the keyboard of a rank."""
        attachment = self._seat.attachment if self._seat is not None else None
        return attachment is not None and attachment.rank.key == rank.key and attachment.driving

    def require_free(self, rank: RankInfo) -> None:
        """Raise BadInput where somebody else types at a rank."""
        if not self.is_ours(rank) and rank.driver not in (None, self._own_name):
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

    async def seize(self, rank: RankInfo) -> None:
        """Take the keyboard of a rank from the terminal or program that has it.

        Raises a DbgError if the broker does not give it.
        """
        async with self._changing:
            if not self.is_ours(rank):
                await self._attach(rank, Mode.TAKE)

    def give(self) -> RankInfo | None:
        """Leave the keyboard; return the rank at which it was, None if there was none."""
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
        """Leave the keyboard; the rank stays as it is."""
        self.give()

    # ----------------------------------------------------------------------------------------------------------- inner

    async def _attach(self, rank: RankInfo, mode: Mode) -> None:
        # A connection has one seat, and the new one replaces it.
        self.give()
        seat = self._seat = Seat(
            self._window.switchboard, rank, mode, wish=Wish(default=PDB), show=self._show, changed=self._changed
        )
        seat.begin()
        try:
            await seat.hold_keyboard()
        except TimedOut:
            self.give()
            raise
        except KeyboardTaken as taken:
            self.give()
            raise _types(taken.driver, rank) from None

    def _show(self, effect: Effect) -> None:
        """Print in the debug console what a terminal would show as a notice; leave the keyboard with its rank."""
        if isinstance(effect, Note):
            self._window.tell(printable(effect.text, MAX_NOTE))
        elif isinstance(effect, Finish):
            self.give()

    async def _changed(self, event: Event | None) -> None:
        """Tell the user when somebody takes the keyboard."""
        if self._seat is None:
            return
        attachment = self._seat.attachment
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


class Moves:
    """What a window makes ranks do. Requests are answered at once; where a rank stops then is told by an event."""

    def __init__(self, window: Window, threads: Threads, keyboard: Keyboard) -> None:
        self._window = window
        self._threads = threads
        self._keyboard = keyboard
        self._open: set[asyncio.Task[None]] = set()

    async def step(self, request: str, arguments: Message) -> None:
        """Carry out ``next``, ``stepIn`` or ``stepOut``."""
        rank = self._threads.stopped_rank(arguments.get("threadId"))
        if rank.state is RankState.HELD:
            raise BadInput(f"{printable(rank.address)} is held, waiting for other ranks", "continue lets it go on")
        if not self._window.may_act:
            # The broker refuses, and the request is answered with its sentence.
            await self._window.ask_one(Action.COMMAND, rank, STEPS[request])
            return
        self._threads.begin_move(rank, is_step=True)
        try:
            has_moved = await self._open_debugger(rank)
        except BaseException:
            self._end(rank, failed=True)
            raise
        if has_moved and request != "stepOut":
            # The debugger's opening has led from the call of set_trace() to the next line, which is the step.
            asyncio.get_running_loop().call_soon(self._end, rank)
        else:
            self._start(rank, Action.COMMAND, STEPS[request])

    async def go_on(self, arguments: Message) -> Message:
        """Carry out ``continue``: a stopped rank goes on, a held one waits no longer."""
        rank = self._threads.stopped_rank(arguments.get("threadId"))
        self._keyboard.require_free(rank)
        action = Action.RELEASE if rank.state is RankState.HELD else Action.CONTINUE
        if self._window.may_act:
            # A debugger opens by itself at the next stop of a rank whose keyboard is held, and that moves the rank.
            if self._keyboard.is_ours(rank):
                self._keyboard.give()
            self._threads.begin_move(rank, is_step=False)
            self._start(rank, action)
        else:
            await self._window.ask_one(action, rank)
        return {"allThreadsContinued": False}

    async def pause(self, arguments: Message) -> None:
        """Carry out ``pause``: break into a rank."""
        rank = self._threads.rank(arguments.get("threadId"))
        self._threads.table.expect_stop(rank.key)
        (answer,) = await self._window.asker().ask(Action.INTERRUPT, [rank])
        if answer.kind is Kind.RUNNING:
            self._window.tell(f"{printable(rank.address)}: {safe_text(answer.text)}")
        elif answer.kind is not Kind.VALUE:
            raise RankError(rank.address, answer.text, answer.kind.value)

    def close(self) -> None:
        """Wait for no answer any more; ranks move on or stand as they are."""
        for task in list(self._open):
            task.cancel()

    async def _open_debugger(self, rank: RankInfo) -> bool:
        """Have the keyboard of a rank and its debugger open; return whether that has moved the rank."""
        await self._keyboard.hold(rank)
        if rank.engine is not None:
            return False
        # The rank's own answer: the list may be behind what the debugger has drawn.
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
            # A step that takes long goes on; its end is told as any stop is.
            failed = error.kind == Kind.ERROR.value
            if failed:
                self._window.tell(str(error), "important")
        except DbgError as error:
            failed = True
            self._window.tell(str(error), "important")
        self._end(rank, failed=failed)

    def _end(self, rank: RankInfo, *, failed: bool = False) -> None:
        self._threads.table.end_move(rank.key, failed=failed)
        self._threads.refresh()
