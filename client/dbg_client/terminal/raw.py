"""The display of a debugger that draws a screen: the user's keyboard and window, and one rank's PuDB in them."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from dbg_client.seat.effects import Bell, Blank, Effect, Show
from dbg_client.terminal.canvas import Canvas
from dbg_client.terminal.escape import Command, EscapeParser, Keys
from dbg_client.terminal.screen import RawTerminal
from dbg_client.terminal.status_line import render
from dbg_wire.records.ranks import RankState

if TYPE_CHECKING:
    from dbg_client.terminal.session import Session

READ_SIZE = 32 * 1024
"""Bytes of one read of the keyboard: a large paste in a few frames, each well below MAX_DATA_BYTES."""

STDIN = 0


class RawDisplay:
    """Pass keys and bytes on, and keep the last row for a status line. The terminal is raw while this is open."""

    def __init__(self, host: Session, terminal: RawTerminal) -> None:
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._terminal = terminal
        self._canvas = self._new_canvas()
        self._keyboard = EscapeParser(host.options.attach.prefix)

    @property
    def size(self) -> tuple[int, int]:
        """Return the (rows, columns) that the rank gets."""
        return self._canvas.rank_size

    async def open(self, keys: bytes) -> None:
        """Take the terminal; ``keys`` were typed before."""
        self._canvas = self._new_canvas()
        self._canvas.open()
        self._loop.add_reader(STDIN, self._typed)
        if self._canvas.rank_size != self._host.attachment.size:
            self._resize()
        if keys:
            self.take_keys(keys)

    async def close(self) -> bytes:
        """Give the terminal back as it was; keys that were not read are dropped."""
        self._loop.remove_reader(STDIN)
        await self._canvas.close()
        return b""

    def begin(self, address: str) -> None:
        """Show a rank from its beginning."""
        self._canvas.title(address)
        self._page(self._text_until_drawn())

    def show(self, effect: Effect) -> None:
        """Carry out an effect that is about the screen."""
        if isinstance(effect, Bell):
            self._canvas.bell()
        elif isinstance(effect, Show):
            self._canvas.show(effect.data)
        elif isinstance(effect, Blank):
            self._page(effect.text)

    def paint(self) -> None:
        """Draw the status line."""
        status = self._host.status(pending=self._keyboard.pending)
        self._canvas.paint(render(status, self._canvas.size[1], color=self._host.options.color))

    def resized(self) -> None:
        """Take note that the window has another size."""
        self._canvas.measure()
        self._resize()
        if text := self._host.attachment.blank_text:
            self._canvas.page(text)
        self.paint()

    async def lend(self, *, row: bool) -> None:
        """Lend the terminal to something else, with ``row`` from its last row on."""
        self._loop.remove_reader(STDIN)
        await self._canvas.lend(row=row)

    def resume(self) -> None:
        """Take the terminal back."""
        self._canvas.resume()
        self._canvas.title(self._host.attachment.rank.address)
        self._loop.add_reader(STDIN, self._typed)
        self._resize()
        self._uncover()

    def take_keys(self, data: bytes) -> None:
        """Take typed bytes."""
        parts = self._keyboard.feed(data)
        for number, part in enumerate(parts):
            if self._host.ended:
                return  # keys behind a detach were not meant for the rank
            if isinstance(part, Keys):
                self._host.perform(self._host.attachment.keys(part.data, self._host.now()))
            elif self._host.lends(part.key) or not self._host.command(part.key):
                self._loop.remove_reader(STDIN)
                self._host.lend(part.key, b"".join(map(self._as_typed, parts[number + 1 :])))
                return
        self.paint()

    def _new_canvas(self) -> Canvas:
        return Canvas(
            self._terminal,
            status=self._host.options.attach.status,
            dropped=self._uncover,
            gone=self._host.detach,
            recording=self._host.options.recording,
        )

    def _resize(self) -> None:
        self._host.perform(self._host.attachment.resize(*self._canvas.rank_size, self._host.now()))

    def _uncover(self) -> None:
        """Show the session again, after something else stood in its place or the screen got lost."""
        self._page(self._text_until_drawn())
        self._host.perform(self._host.attachment.ask_repaint(self._host.now()))
        self.paint()

    def _page(self, text: str) -> None:
        self._canvas.page(text, wrap=not self._host.attachment.cropped)

    def _text_until_drawn(self) -> str:
        rank = self._host.attachment.rank
        if rank.state is RankState.UNRESPONSIVE:
            return f"{rank.address} does not answer.\nIts debugger comes back here when it does."
        return self._host.attachment.blank_text

    def _typed(self) -> None:
        try:
            data = os.read(STDIN, READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            if self._host.options.recording is not None:
                self._host.options.recording.typed(data)
            self.take_keys(data)
        else:
            self._host.detach()

    def _as_typed(self, part: Keys | Command) -> bytes:
        return part.data if isinstance(part, Keys) else (self._host.options.attach.prefix or b"") + part.key.encode()
