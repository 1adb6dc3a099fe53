"""A raw session: the user's keyboard and screen, one rank's PuDB in them, and the broker between."""

from __future__ import annotations

import asyncio
import enum
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from dbg_wire.codec import Output
from dbg_wire.errors import DbgError, printable
from dbg_wire.messages import Mode
from dbg_wire.ranks import RankInfo, RankState

from .canvas import Canvas
from .choose import neighbour
from .directory import Directory
from .effects import Bell, Blank, Effects, Finish, Open, Send, Show
from .escape import Command, EscapeParser, Keys, key_name
from .line import Down, Line, Up
from .model import Attachment
from .say import talk
from .screen import RawTerminal
from .status_line import render
from .views import pages
from .views.status import Others, count_others, status_of

READ_SIZE = 32 * 1024
"""Bytes of one read of the keyboard: a large paste in a few frames, each well below MAX_DATA_BYTES."""

TICK_SECONDS = 1.0
"""Seconds between two looks at the clock: the status line counts seconds."""

STDIN, STDOUT = 0, 1


class End(enum.Enum):
    """Name how a session ended."""

    DETACHED = "detached"
    WENT_ON = "went on"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold how a session ended and at which rank.

    ``error`` says it where it failed, ``opened`` if it began, ``loss`` which keys were discarded right before.
    """

    end: End
    rank: RankInfo
    opened: bool
    error: DbgError | None = None
    loss: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """Hold how a session looks and which key commands it; ``note`` is for its first line."""

    mode: Mode
    prefix: bytes | None
    status: bool
    colors: int
    color: bool
    note: str | None = None


Picker = Callable[[Directory, bytes], Awaitable[tuple[RankInfo | None, bytes]]]
"""Lets the user pick a rank, given keys typed ahead; returns it and the keys that it didn't use."""


class RawSession:
    """Join keyboard, screen and broker until the session ends.

    Belongs to one event loop, and uses stdin and stdout, which must be terminals. The terminal becomes raw when the
    broker grants the seat, and is as it was before when :meth:`run` returns or raises.
    """

    def __init__(self, line: Line, directory: Directory, rank: RankInfo, manner: Manner, picker: Picker) -> None:
        self._line = line
        self._directory = directory
        self._manner = manner
        self._pick_rank = picker
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[Outcome] = self._loop.create_future()
        self._terminal = RawTerminal(STDIN, STDOUT)
        self._canvas = Canvas(self._terminal, status=manner.status, dropped=self._uncover, gone=self._detach)
        self._keyboard = EscapeParser(manner.prefix)
        self._prefix = key_name(manner.prefix) if manner.prefix else ""
        self._attachment = self._attachment_to(rank, manner.mode)
        self._back: RankInfo | None = None
        self._others = Others()
        self._helping = False
        self._picking: asyncio.Task[None] | None = None

    async def run(self) -> Outcome:
        """Attach, and return how the session ended. Raises BadInput where stdin is no terminal."""
        with self._terminal:
            self._catch_signals()
            tasks = [
                self._loop.create_task(part) for part in (self._watched(self._pump()), self._watched(self._tick()))
            ]
            self._loop.set_exception_handler(self._callback_failed)
            try:
                self._perform(self._attachment.attach())
                return await self._done
            finally:
                self._loop.set_exception_handler(None)
                await _end_tasks([*tasks, self._picking])
                self._loop.remove_reader(STDIN)
                await self._canvas.close()
                self._perform(self._attachment.leave())
                self._release_signals()

    # ------------------------------------------------------------------------------------------------------ life cycle

    def _catch_signals(self) -> None:
        self._loop.add_signal_handler(signal.SIGWINCH, self._resized)
        self._loop.add_signal_handler(signal.SIGHUP, self._detach)
        self._loop.add_signal_handler(signal.SIGTERM, self._detach)

    def _release_signals(self) -> None:
        # A window that closes sends its signal right behind the end of its input. Once that was a detach, the signal
        # must not turn the farewell into a violent end; blocked, it has no moment to do so.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        for number in (signal.SIGWINCH, signal.SIGHUP, signal.SIGTERM):
            self._loop.remove_signal_handler(number)
        if self._detached:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})

    @property
    def _detached(self) -> bool:
        done = self._done
        ended = done.done() and not done.cancelled() and done.exception() is None
        return ended and done.result().end is End.DETACHED

    def _attachment_to(self, rank: RankInfo, mode: Mode) -> Attachment:
        return Attachment(rank, mode, self._canvas.rank_size, colors=self._manner.colors, prefix=self._prefix)

    def _opened(self) -> None:
        address = self._attachment.rank.address
        if not self._canvas.is_open:
            talk(self._first_line())
            self._canvas.open()
            self._loop.add_reader(STDIN, self._typed)
        elif self._back is not None:
            self._attachment.say(f"attached to {address}", self._loop.time())
        self._back = None
        self._others = count_others(self._attachment.rank, self._directory.ranks)
        self._canvas.title(address)
        self._blank(self._text_until_drawn())

    def _first_line(self) -> str:
        report = self._attachment.report
        engine = report.session.engine if report and report.session else "pudb"
        shown = {"pudb": "PuDB", "pdb": "pdb"}.get(engine, printable(engine))
        leave = f"{self._prefix} d detaches, {self._prefix} ? helps." if self._prefix else "Close the window to detach."
        note = f" {printable(self._manner.note)}" if self._manner.note else ""
        return f"Attached to {printable(self._attachment.rank.address)} ({shown}). {leave}{note}"

    def _finish(self, error: DbgError | None) -> None:
        if error is not None and not self._attachment.opened and self._back is not None:
            # The rank one wanted to go to can't be had; the one before can.
            self._go_to(self._back)
            self._attachment.say(str(error), self._loop.time())
            return
        self._end(End.WENT_ON if error is None else End.FAILED, error)

    def _detach(self) -> None:
        self._end(End.DETACHED)

    def _end(self, end: End, error: DbgError | None = None) -> None:
        if not self._done.done():
            # As the list has it now, so that the same stop is known again.
            rank = self._directory.by_key.get(self._attachment.rank.key, self._attachment.rank)
            loss = self._attachment.unread_loss(self._loop.time())
            self._done.set_result(Outcome(end, rank, self._attachment.opened, error, loss))

    def _callback_failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # A bug in a callback would otherwise leave a terminal that takes no keys.
        error = context.get("exception")
        if "handle" in context and error is not None and not self._done.done():
            self._done.set_exception(error)

    async def _watched(self, part: Awaitable[None]) -> None:
        try:
            await part
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if self._done.done():
                raise
            self._done.set_exception(error)

    # ------------------------------------------------------------------------------------------------------ the broker

    async def _pump(self) -> None:
        while True:
            event = await self._line.next()
            now = self._loop.time()
            if isinstance(event, Up):
                self._directory.begin()
                self._attachment.line_up(now)
            elif isinstance(event, Down):
                self._directory.cut_off(event.reason)
                self._attachment.line_down(event.reason, now)
            elif isinstance(event, Output):
                self._perform(self._attachment.output(event, now))
            else:
                if self._directory.take(event):
                    self._list_changed(now)
                self._perform(self._attachment.message(event, now))
            self._paint()

    def _list_changed(self, now: float) -> None:
        rank = self._attachment.rank
        if self._directory.complete and self._attachment.line_down_since is None:
            self._perform(self._attachment.rank_listed(self._directory.by_key.get(rank.key), now))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            # Here and not at each change: among thousands of ranks there is always one that changes.
            self._others = count_others(self._attachment.rank, self._directory.ranks)
            self._perform(self._attachment.tick(self._loop.time()))
            self._paint()

    def _perform(self, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._line.send(effect.item)
            elif isinstance(effect, Show):
                self._show(effect.data)
            elif isinstance(effect, Blank):
                self._blank(effect.text)
            elif isinstance(effect, Bell):
                self._canvas.bell()
            elif isinstance(effect, Open):
                self._opened()
            elif isinstance(effect, Finish):
                self._finish(effect.error)
                return

    # ------------------------------------------------------------------------------------------------------ the screen

    def _show(self, data: bytes) -> None:
        if not self._helping:
            self._canvas.show(data)

    def _blank(self, text: str) -> None:
        if not self._helping:
            self._canvas.page(text, wrap=not self._attachment.cropped)

    def _uncover(self) -> None:
        """Show the session again, after something else stood in its place or the screen got lost."""
        self._helping = False
        self._canvas.page(self._text_until_drawn(), wrap=not self._attachment.cropped)
        self._perform(self._attachment.ask_repaint(self._loop.time()))
        self._paint()

    def _text_until_drawn(self) -> str:
        if self._attachment.rank.state is RankState.UNRESPONSIVE:
            return f"{self._attachment.rank.address} does not answer.\nIts debugger comes back here when it does."
        return self._attachment.blank_text

    def _help(self) -> None:
        self._helping = True
        self._canvas.page(pages.help_text(self._prefix))

    def _paint(self) -> None:
        status = status_of(
            self._attachment,
            self._others,
            self._loop.time(),
            prefix=self._prefix,
            pending=self._keyboard.pending,
        )
        self._canvas.paint(render(status, self._canvas.size[1], color=self._manner.color))

    def _resized(self) -> None:
        self._canvas.measure()
        self._perform(self._attachment.resize(*self._canvas.rank_size, self._loop.time()))
        if self._helping:
            self._help()
        elif text := self._attachment.blank_text:
            self._canvas.page(text)
        self._paint()

    # ---------------------------------------------------------------------------------------------------- the keyboard

    def _typed(self) -> None:
        try:
            data = os.read(STDIN, READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._take_keys(data)
        else:
            self._detach()

    def _take_keys(self, data: bytes) -> None:
        parts = self._keyboard.feed(data)
        for number, part in enumerate(parts):
            if self._done.done():
                return  # keys behind a detach were not meant for the rank
            if self._helping:
                self._uncover()
            elif isinstance(part, Keys):
                self._perform(self._attachment.keys(part.data, self._loop.time()))
            elif part.key == "r":
                self._start_picking(b"".join(map(_as_typed, parts[number + 1 :])))
                return
            else:
                self._command(part)
        self._paint()

    def _command(self, command: Command) -> None:
        if command.key in ("d", "."):
            self._detach()
        elif command.key == "w":
            self._perform(self._attachment.take(self._loop.time()))
        elif command.key in ("n", "p"):
            self._go_to_neighbour(1 if command.key == "n" else -1)
        else:
            self._help()

    def _go_to_neighbour(self, step: int) -> None:
        rank = neighbour(self._attachment.rank, self._directory.ranks, step)
        if rank is None:
            self._attachment.say("no other rank of this job is stopped", self._loop.time())
            self._canvas.bell()
        else:
            self._go_to(rank)

    def _go_to(self, rank: RankInfo) -> None:
        left = self._attachment
        self._back = left.rank if left.opened else None
        mode = Mode.WATCH if self._manner.mode is Mode.WATCH else Mode.DRIVE
        self._attachment = self._attachment_to(rank, mode)
        self._perform(self._attachment.attach())

    # ------------------------------------------------------------------------------------------------------ the picker

    def _start_picking(self, typed_ahead: bytes) -> None:
        self._loop.remove_reader(STDIN)
        self._picking = self._loop.create_task(self._watched(self._pick(typed_ahead)))

    async def _pick(self, typed_ahead: bytes) -> None:
        await self._canvas.suspend()
        try:
            rank, unused = await self._pick_rank(self._directory, typed_ahead)
        finally:
            self._canvas.resume()
            self._picking = None
        self._canvas.title(self._attachment.rank.address)
        self._loop.add_reader(STDIN, self._typed)
        self._perform(self._attachment.resize(*self._canvas.rank_size, self._loop.time()))
        self._uncover()
        if rank is not None and rank.key != self._attachment.rank.key:
            self._go_to(rank)
        if unused:
            self._take_keys(unused)


def _as_typed(part: Keys | Command) -> bytes:
    return part.data if isinstance(part, Keys) else part.key.encode()


async def _end_tasks(tasks: list[asyncio.Task[None] | None]) -> None:
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
