"""The terminal in which a recording plays: keys, timers and the screen around a player."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Callable

from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from ..terminal.canvas import Canvas
from ..terminal.key_presses import key_presses
from ..terminal.screen import RawTerminal
from .player import JUMP_SECONDS, Draw, Player
from .status import status_line

STDIN, STDOUT = 0, 1

READ_SIZE = 4096

TICK_SECONDS = 0.25
"""Seconds between two looks at the clock that the status line shows, while nothing is drawn."""

MAX_SOUGHT = 200
"""Characters of a text to search for; it is found only if it is drawn at once."""

_OTHER_SCREEN = re.compile(r"\x1b\[\?(?:47|1047|1048|1049)[hl]")
"""What shows another screen: the replay has one, and the user's own must stay untouched behind it."""


class Replay:
    """Show a player's recording until the user leaves. Belongs to the running event loop."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._loop = asyncio.get_running_loop()
        self._terminal = RawTerminal(STDIN, STDOUT)
        self._canvas = Canvas(self._terminal, status=True, dropped=self._show_again, gone=self._leave)
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._sought: str | None = None

    async def run(self) -> None:
        """Play; the terminal is as it was before when this returns or raises."""
        numbers = ((signal.SIGWINCH, self._resized), (signal.SIGTERM, self._leave), (signal.SIGHUP, self._leave))
        with self._terminal:
            for number, act in numbers:
                self._loop.add_signal_handler(number, act)
            self._loop.set_exception_handler(self._callback_failed)
            self._canvas.open()
            try:
                self._loop.add_reader(STDIN, self._typed)
                self._begin_screen()
                self._player.now = self._loop.time()
                self._go_on()
                await self._done
            finally:
                self._loop.remove_reader(STDIN)
                self._loop.set_exception_handler(None)
                if self._timer is not None:
                    self._timer.cancel()
                await self._canvas.close()
                for number, _ in numbers:
                    self._loop.remove_signal_handler(number)

    # ------------------------------------------------------------------------------------------------------ the screen

    def _go_on(self) -> None:
        """Draw what is due, and come back when something else is."""
        if self._timer is not None:
            self._timer.cancel()
        self._draw(self._player.advance(self._loop.time()))
        self._paint()
        seconds = self._player.wait()
        self._timer = None if seconds is None else self._loop.call_later(min(seconds, TICK_SECONDS), self._go_on)

    def _draw(self, draw: Draw) -> None:
        if draw.anew:
            self._begin_screen()
        if draw.data:
            self._canvas.show(_OTHER_SCREEN.sub("", draw.data).encode("utf-8", "replace"))

    def _begin_screen(self) -> None:
        rows, columns = self._canvas.rank_size
        is_cropped = self._player.size[0] > rows or self._player.size[1] > columns
        self._canvas.page("", wrap=not is_cropped)
        # Lines that scroll stay above the status line.
        self._canvas.show(b"\x1b[1;%dr\x1b[H\x1b[?25h" % rows)

    def _paint(self) -> None:
        canvas = self._canvas
        canvas.paint(status_line(self._player, canvas.rank_size, canvas.size[1], self._sought))

    def _resized(self) -> None:
        self._canvas.measure()
        self._show_again()

    def _show_again(self) -> None:
        self._draw(self._player.jump(self._player.position, self._loop.time()))
        self._go_on()

    # ---------------------------------------------------------------------------------------------------- the keyboard

    def _typed(self) -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = os.read(STDIN, READ_SIZE)
        if not data:
            self._leave()
            return
        for press in key_presses(data):
            if self._sought is None:
                self._key(press)
            else:
                self._search_key(press)
        if not self._done.done():
            self._go_on()

    def _key(self, press: KeyPress) -> None:
        player, now = self._player, self._loop.time()
        # What has come due by now is drawn first: a pause is where the user has seen it.
        self._draw(player.advance(now))
        player.note = ""
        act: dict[str, Callable[[], Draw | None]] = {
            " ": lambda: player.pause(now),
            "+": lambda: player.change_speed(1, now),
            "=": lambda: player.change_speed(1, now),
            "-": lambda: player.change_speed(-1, now),
            ".": player.step,
            "[": lambda: player.to_marker(-1, now),
            "]": lambda: player.to_marker(1, now),
            "n": lambda: player.search("", now),
            Keys.Left: lambda: player.jump(player.position - JUMP_SECONDS, now),
            Keys.Right: lambda: player.jump(player.position + JUMP_SECONDS, now),
            Keys.Home: lambda: player.jump(0.0, now),
            Keys.End: lambda: player.jump(player.tape.duration, now),
        }
        if press.key in ("q", Keys.ControlC, Keys.ControlD, Keys.Escape):
            self._leave()
        elif press.key == "/":
            self._sought = ""
        elif press.key in act:
            draw = act[press.key]()
            if draw is not None:
                self._draw(draw)

    def _search_key(self, press: KeyPress) -> None:
        sought = self._sought or ""
        if press.key in (Keys.Escape, Keys.ControlC):
            self._sought = None
        elif press.key in (Keys.ControlM, Keys.ControlJ):
            self._sought = None
            draw = self._player.search(sought, self._loop.time())
            if draw is not None:
                self._draw(draw)
        elif press.key in (Keys.Backspace, Keys.ControlH):
            self._sought = sought[:-1] if sought else None
        elif press.data.isprintable():
            self._sought = f"{sought}{press.data}"[:MAX_SOUGHT]

    def _leave(self) -> None:
        if not self._done.done():
            self._done.set_result(None)

    def _callback_failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        # An error in a callback would otherwise leave a terminal that takes no keys.
        error = context.get("exception")
        if isinstance(error, BaseException) and not self._done.done():
            self._done.set_exception(error)
