"""Display of a full-screen debugger such as PuDB: passes keys to one rank, and its output to the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

from dbg_client.core.wait_progress import cancel_and_wait
from dbg_client.seat.effects import Bell, Blank, Effect, Show
from dbg_client.terminal.escape import Command, EscapeParser, Keys
from dbg_client.terminal.screen import (
    CALM,
    CUT_LINES,
    RawTerminal,
    TerminalWriter,
    blank,
    last_row,
)
from dbg_client.terminal.status_line import paint, render
from dbg_command.sequences import QueryFilter
from dbg_dial.tcp import within
from dbg_wire import limits
from dbg_wire.records.ranks import RankState

if TYPE_CHECKING:
    from dbg_client.terminal.session import Session

READ_SIZE = 32 * 1024
"""Maximum bytes per read of the keyboard: a large paste needs a few frames, each well below MAX_DATA_BYTES."""

LEAVE_SECONDS = 0.3
"""Seconds for a terminal to accept the remaining bytes before it is restored; a longer wait would feel stuck."""

LEND_SECONDS = 3.0
"""Seconds for a terminal to accept the remaining bytes before it is lent to another view, such as the picker.

Bytes accepted later would appear among that view's output. The network under ssh may stall for about this time.
"""

STDIN, STDOUT = 0, 1


class RawDisplay:
    """Display that passes on keys and output, and keeps the last row for a status line.

    The terminal is raw while the display is open. Belongs to the running event loop.
    """

    def __init__(self, host: Session, terminal: RawTerminal) -> None:
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._terminal = terminal
        self._keyboard = EscapeParser(host.options.attach.prefix)
        self._writer: TerminalWriter | None = None
        self._suspended = False
        self._draining: asyncio.Task[None] | None = None
        self._painted: tuple[str, int] | None = None
        self._filter = QueryFilter()
        self._window = terminal.size()

    @property
    def size(self) -> tuple[int, int]:
        """The (rows, columns) for the rank."""
        rows, columns = self._window
        rows -= 1 if self._host.options.attach.status and rows > 2 else 0
        return min(rows, limits.MAX_ROWS), min(columns, limits.MAX_COLUMNS)

    async def open(self, keys: bytes) -> None:
        """Make the terminal raw and take its screen; ``keys`` were typed before the display opened."""
        self._measure()
        self._terminal.enter_raw()
        self._suspended = False
        self._writer = TerminalWriter(STDOUT, self._loop)
        self._loop.add_reader(STDIN, self._typed)
        if self.size != self._host.attachment.size:
            self._resize()
        if keys:
            self.take_keys(keys)

    async def close(self) -> bytes:
        """Restore the terminal; keys that were not read are dropped."""
        self._loop.remove_reader(STDIN)
        await cancel_and_wait(self._draining)
        if self._writer is not None:
            await self._give_back(LEAVE_SECONDS)
            self._writer.close()
            self._terminal.restore()
            self._record(CALM)
        return b""

    def start(self) -> None:
        """Start to show a rank: clear the screen until the rank's debugger draws."""
        self._page(self._text_until_drawn())

    def show(self, effect: Effect) -> None:
        """Carry out an effect on the screen."""
        if isinstance(effect, Bell):
            self._write(b"\x07")
        elif isinstance(effect, Show):
            # The filter passes only drawing sequences, and each one only once it is complete.
            self._draw(self._filter.feed(effect.data))
        elif isinstance(effect, Blank):
            self._page(effect.text)

    def paint(self) -> None:
        """Draw the status line."""
        rows, columns = self._window
        status = self._host.status(pending=self._keyboard.pending)
        painted = (render(status, columns), rows)
        if self._host.options.attach.status and painted != self._painted:
            self._painted = painted
            self._write(paint(*painted))

    def resized(self) -> None:
        """Handle a change of the window's size."""
        self._measure()
        self._resize()
        if text := self._host.attachment.blank_text:
            self._page(text)
        self.paint()

    async def lend_terminal(self, *, row: bool) -> None:
        """Lend the terminal to a page, picker or command row: nothing is drawn until :meth:`resume`.

        With ``row`` the cursor moves to the last row, where the borrower starts; the rows above do not change.
        """
        self._loop.remove_reader(STDIN)
        if row:
            self._write(last_row(self._window[0]))
        await self._give_back(LEND_SECONDS)
        if not row:
            self._terminal.leave_raw()
            self._record(CALM)

    def resume(self) -> None:
        """Resume after :meth:`lend_terminal`; draw everything, because the screen's content is unknown."""
        self._terminal.enter_raw()
        self._suspended = False
        self._measure()
        self._loop.add_reader(STDIN, self._typed)
        self._resize()
        self._uncover()

    def take_keys(self, data: bytes) -> None:
        """Handle typed bytes."""
        parts = self._keyboard.feed(data)
        for number, part in enumerate(parts):
            if self._host.ended:
                return  # keys after a detach were not meant for the rank
            if isinstance(part, Keys):
                self._host.perform(self._host.attachment.keys(part.data, self._host.now()))
            elif self._host.lends(part.key):
                self._loop.remove_reader(STDIN)
                self._host.lend_terminal(part.key, b"".join(map(self._as_typed, parts[number + 1 :])))
                return
            else:
                self._host.command(part.key)
        self.paint()

    def _typed(self) -> None:
        try:
            data = os.read(STDIN, READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self.take_keys(data)
        else:
            self._host.detach()

    def _as_typed(self, part: Keys | Command) -> bytes:
        return part.data if isinstance(part, Keys) else (self._host.options.attach.prefix or b"") + part.key.encode()

    # -------------------------------------------------------------------------------------------------- the screen

    def _measure(self) -> None:
        self._painted = None
        self._window = self._terminal.size()

    def _resize(self) -> None:
        self._host.perform(self._host.attachment.resize(*self.size, self._host.now()))

    def _uncover(self) -> None:
        """Show the session again, after its screen was replaced or lost."""
        self._page(self._text_until_drawn())
        self._host.perform(self._host.attachment.ask_repaint(self._host.now()))
        self.paint()

    def _text_until_drawn(self) -> str:
        rank = self._host.attachment.rank
        if rank.state is RankState.UNRESPONSIVE:
            return f"{rank.address} does not answer.\nIts debugger reappears here when the rank answers."
        return self._host.attachment.blank_text

    def _page(self, text: str) -> None:
        """Clear the screen, reset the terminal and write ``text``; the rank's next output begins a new stream.

        A screen that is larger than the terminal is cut off at the right edge.
        """
        self._filter = QueryFilter()
        self._draw(blank(text, *self.size) + (CUT_LINES if self._host.attachment.cropped else b""))

    async def _give_back(self, seconds: float) -> None:
        # Don't draw the rank's output during this wait: it would move the cursor, and the borrower starts there.
        self._suspended = True
        if self._writer is not None:
            with contextlib.suppress(TimeoutError):
                await within(seconds, self._writer.drain())

    def _draw(self, data: bytes) -> None:
        self._painted = None
        self._write(data)

    def _write(self, data: bytes) -> None:
        if self._writer is None or self._suspended:
            return
        self._writer.write(data)
        self._record(data)
        if self._writer.gone:
            self._host.detach()
        elif self._writer.overflowed and self._draining is None:
            self._draining = self._loop.create_task(self._drain(self._writer))

    def _record(self, data: bytes) -> None:
        if self._host.options.recording is not None:
            self._host.options.recording.shown(data)

    async def _drain(self, writer: TerminalWriter) -> None:
        dropped = await writer.drain()
        self._draining = None
        if dropped:
            self._uncover()
