"""Write an answer: through the user's pager, as git does."""

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
from collections.abc import Iterator, Mapping

from dbg_client.shell.streams import has_cursor, terminal_size, write_result
from dbg_client.verbs.answer import Answer, Style
from dbg_client.verbs.preferences import PREFERENCES
from dbg_client.verbs.verb import Format
from dbg_client.views.table import text_width
from dbg_command.alike import look_alike

_LESS = "FRX"
"""Options of less, unless the user has chosen some: leave a short text alone, show colours, leave the text there."""

_NOT_RUN = (126, 127)
"""Exit status of a shell that can't run what it was told."""


def written(answer: Answer, form: Format, style: Style) -> str:
    """Return an answer as the user wants it: as one JSON document, or as the text for people."""
    return json.dumps(answer.document()) + "\n" if form is Format.JSON else answer.text(style)


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
