"""Show a long answer through the user's pager, as git does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping

from dbg_client.streams import has_cursor, terminal_size, write_result
from dbg_client.views.width import text_width
from dbg_client.words.config import PREFERENCES
from dbg_wire.command_line.look_alikes import look_alike

_USUAL = PREFERENCES["pager"].default
_LESS = "FRX"
"""Options of less, unless the user has chosen some: leave a short text alone, show colours, leave the text there."""

_NOT_RUN = (126, 127)
"""Exit status of a shell that can't run what it was told."""

_COLOR = re.compile(r"\x1b\[[0-9;]*m")


async def show_result(text: str, pager: str) -> None:
    """Write a result to stdout; one that is longer than the terminal goes through ``pager``, unless that is empty.

    While the pager runs, Ctrl-C is its own. A pager that can't be run is no reason to show nothing. Raises CantPrint.
    """
    usable = is_usable(pager, os.environ) and sys.stdout.isatty()
    if not usable or fits(text, *terminal_size()) or not await _paged(pager, text):
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


async def _paged(pager: str, text: str) -> bool:
    data = look_alike(text, sys.stdout.encoding).encode(sys.stdout.encoding)
    with _ctrl_c_is_the_pagers():
        return await asyncio.to_thread(_show, pager, data)


def _show(pager: str, data: bytes) -> bool:
    """Run the pager until it ends; tell whether it has run."""
    environ = {"LESS": _LESS, **os.environ}
    try:
        process = subprocess.Popen(["/bin/sh", "-c", pager], stdin=subprocess.PIPE, env=environ)
    except OSError:
        return False
    # A pager that is left before the end has no use for the rest.
    with process, contextlib.suppress(OSError):
        process.communicate(data)
    return process.returncode not in _NOT_RUN


@contextlib.contextmanager
def _ctrl_c_is_the_pagers() -> Iterator[None]:
    # A handler and not SIG_IGN, which the pager would inherit.
    former = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
