"""Write an answer: through the user's pager, as git does, or again and again, in place on a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import NoReturn

from dbg_client.actions.streams import has_cursor, tell, terminal_size, write_result
from dbg_client.views.table import text_width
from dbg_client.words.config import PREFERENCES
from dbg_client.words.settings import Format, OutputOptions
from dbg_wire.command_line.look_alikes import look_alike
from dbg_wire.errors import DbgError

CLEAR, HOME, CLEAR_REST = "\x1b[2J", "\x1b[H", "\x1b[J"
CLEAR_LINE = "\x1b[K\r\n"
NO_WRAP, WRAP = "\x1b[?7l", "\x1b[?7h"

_LESS = "FRX"
"""Options of less, unless the user has chosen some: leave a short text alone, show colours, leave the text there."""

_NOT_RUN = (126, 127)
"""Exit status of a shell that can't run what it was told."""


def in_format(output: OutputOptions, document: Callable[[], object], text: Callable[[], str]) -> str:
    """Return an answer as the user wants it: as one JSON document, or as the text for people."""
    return json.dumps(document()) + "\n" if output.format is Format.JSON else text()


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


_USUAL = PREFERENCES["pager"].default


_COLOR = re.compile(r"\x1b\[[0-9;]*m")


async def show_result(text: str, pager: str) -> None:
    """Write a result to stdout; one that is longer than the terminal goes through ``pager``, unless that is empty.

    While the pager runs, Ctrl-C is its own. A pager that can't be run is no reason to show nothing. Raises CantPrint.
    """
    usable = is_usable(pager, os.environ) and sys.stdout.isatty()
    if not usable or fits(text, *terminal_size()) or not await page(text, pager):
        write_result(text)


def is_usable(pager: str, environ: Mapping[str, str]) -> bool:
    """Tell whether this shell command can show a text in this terminal; ``cat`` or nothing stands for no pager."""
    if pager.strip() in ("", "cat") or not has_cursor(environ):
        return False
    return pager != _USUAL or shutil.which(_USUAL, path=environ.get("PATH")) is not None


def fits(text: str, rows: int, columns: int) -> bool:
    """Tell whether a text and the prompt behind it are on the screen at once."""
    needed = 1
    for line in text.split("\n")[:-1]:
        needed += max(1, -(-text_width(_COLOR.sub("", line)) // max(1, columns)))
        if needed > rows:
            return False
    return True


async def page(text: str, pager: str, less: str = "") -> bool:
    """Show a text in the user's pager until the user leaves it; return whether the pager has run.

    ``less`` are options for less that count more than the user's. A pager is ended if its task is cancelled.
    """
    data = look_alike(text, sys.stdout.encoding).encode(sys.stdout.encoding)
    environ = {**os.environ, "LESS": f"{os.environ.get('LESS', _LESS)} {less}"}
    command = ("/bin/sh", "-c", pager)
    with _ctrl_c_is_the_pagers():
        try:
            process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, env=environ)
        except OSError:
            return False
        try:
            await process.communicate(data)
        finally:
            if process.returncode is None:
                process.terminate()
    return process.returncode not in _NOT_RUN


@contextlib.contextmanager
def _ctrl_c_is_the_pagers() -> Iterator[None]:
    # A handler and not SIG_IGN, which the pager would inherit.
    former = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
