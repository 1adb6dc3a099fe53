"""``--every``: an answer again and again, in place on a terminal, and one after another elsewhere."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

from dbg_client.streams import tell, terminal_size, write_result
from dbg_client.words.settings import Format
from dbg_wire.errors import DbgError

CLEAR, HOME, CLEAR_REST = "\x1b[2J", "\x1b[H", "\x1b[J"
CLEAR_LINE = "\x1b[K\r\n"
NO_WRAP, WRAP = "\x1b[?7l", "\x1b[?7h"


async def repeat(
    output: Format,
    seconds: float,
    show: Callable[[], Awaitable[str]],
) -> NoReturn:
    """Show what ``show`` returns every ``seconds`` until Ctrl-C.

    Raises DbgError if the first time fails; what goes wrong later is
    shown.
    """
    painter = _Painter(output, seconds)
    painter.paint(await show())
    while True:
        await asyncio.sleep(seconds)
        try:
            painter.paint(await show())
        except DbgError as error:
            painter.complain(f"dbg-attach: {error}")


def in_place(lines: Sequence[str], rows: int) -> str:
    """Return the text that replaces a terminal's screen by these lines, or by as many of them as it has room for."""
    room = max(1, rows - 1)
    if len(lines) > room:
        lines = [*lines[: room - 1], f"… {len(lines) - room + 1} more lines"]
    # Every line is written over the one before: a screen that is cleared first would flicker.
    return HOME + NO_WRAP + "".join(line + CLEAR_LINE for line in lines) + CLEAR_REST + WRAP


class _Painter:
    def __init__(self, output: Format, seconds: float) -> None:
        self._seconds = seconds
        self._repaints = output is Format.TABLE and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._separator = "" if output is Format.JSON else "\n"
        self._painted = False

    def paint(self, text: str) -> None:
        if self._repaints:
            head = f"every {self._seconds:g} s, {time.strftime('%H:%M:%S')}; Ctrl-C ends"
            painted = in_place([head, "", *text.splitlines()], terminal_size()[0])
            write_result(painted if self._painted else CLEAR + painted)
        else:
            write_result(self._separator + text if self._painted else text)
        self._painted = True

    def complain(self, sentence: str) -> None:
        if self._repaints:
            self.paint(sentence)
        else:
            tell(sentence)
