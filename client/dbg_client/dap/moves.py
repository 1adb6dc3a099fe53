"""Moves of one rank: steps, going on, and breaking in. Each is for one thread alone, whatever the IDE asks for."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from dbg_client.api.answers import safe_text
from dbg_client.dap.keyboard import Keyboard
from dbg_client.dap.listing import Threads
from dbg_client.dap.messages import Message
from dbg_client.dap.threads import REST
from dbg_client.dap.window import Window
from dbg_client.questions.errors import RankError
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.messages import Action, Kind
from dbg_wire.records.ranks import RankInfo, RankState

STEPS = {"next": "step over", "stepIn": "step in", "stepOut": "step out"}
"""The requests that are steps, and the rank's commands for them, which end at lines as IDEs' users expect."""


class Moves:
    """What a window makes ranks do. Requests are answered at once; where a rank stops then is told by an event."""

    def __init__(self, window: Window, threads: Threads, keyboard: Keyboard) -> None:
        self._window = window
        self._threads = threads
        self._keyboard = keyboard
        self._open: set[asyncio.Task[None]] = set()

    async def step(self, request: str, arguments: Message) -> None:
        """Carry out ``next``, ``stepIn`` or ``stepOut``."""
        rank = self._threads.standing(arguments.get("threadId"))
        if rank.state is RankState.HELD:
            raise BadInput(f"{printable(rank.address)} is held, waiting for other ranks", "continue lets it go on")
        if not self._window.may_act:
            # The broker refuses, and the request is answered with its sentence.
            await self._window.ask_one(Action.COMMAND, rank, STEPS[request])
            return
        self._threads.table.hush(rank.key, on=True)
        try:
            has_moved = await self._open_debugger(rank)
        except BaseException:
            self._threads.table.hush(rank.key, on=False)
            raise
        self._threads.table.begin_move(rank.key, is_step=True)
        if has_moved and request != "stepOut":
            # The debugger's opening has led from the call of set_trace() to the next line, which is the step.
            asyncio.get_running_loop().call_soon(self._end, rank)
        else:
            self._start(rank, Action.COMMAND, STEPS[request])

    async def go_on(self, arguments: Message) -> Message:
        """Carry out ``continue``: a stopped rank goes on, a held one waits no longer."""
        rank = self._threads.standing(arguments.get("threadId"))
        self._threads.require_typed(rank)
        self._keyboard.require_free(rank)
        action = Action.RELEASE if rank.state is RankState.HELD else Action.CONTINUE
        if self._window.may_act:
            # A debugger opens by itself at the next stop of a rank whose keyboard is held, and that moves the rank.
            if self._keyboard.is_ours(rank):
                self._keyboard.give()
            self._threads.table.begin_move(rank.key, is_step=False)
            self._start(rank, action)
        else:
            await self._window.ask_one(action, rank)
        return {"allThreadsContinued": False}

    async def pause(self, arguments: Message) -> None:
        """Carry out ``pause``: break into a rank, or into all that run and are not listed."""
        thread = arguments.get("threadId")
        if thread == REST:
            ranks = [rank for rank in self._threads.rest() if rank.state is RankState.RUNNING]
        else:
            ranks = [self._threads.rank(thread)]
        for rank in ranks:
            self._threads.table.expect_stop(rank.key)
        await self._have_left(ranks)
        running = [rank for rank in ranks if self._window.now(rank).state is RankState.RUNNING]
        answers = await self._window.asker().ask(Action.INTERRUPT, ranks) if ranks else []
        if len(ranks) != 1:
            return
        (rank,), (answer,) = ranks, answers
        if answer.kind is Kind.RUNNING:
            self._window.tell(f"{printable(rank.address)}: {safe_text(answer.text)}")
        elif answer.kind is not Kind.VALUE:
            raise RankError(rank.address, answer.text, answer.kind.value)
        if running:
            await self._keyboard.seize_at_stop(rank, has_stopped=answer.kind is Kind.VALUE)

    async def _have_left(self, ranks: list[RankInfo]) -> None:
        """Wait until ranks that were told to go on have left their stops: they would answer that they stand already."""

        def left() -> bool | None:
            return not any(self._threads.table.is_leaving(self._window.now(rank)) for rank in ranks) or None

        switchboard = self._window.switchboard
        with suppress(asyncio.TimeoutError):
            await switchboard.until(left, switchboard.seconds)

    async def settled(self) -> None:
        """Wait until the ranks have answered to the moves so far, which they do when a step has ended or takes long."""
        await asyncio.gather(*self._open)

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
        self._threads.look()
