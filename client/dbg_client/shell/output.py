"""Show an answer, through the user's pager if it is long, and ask the user for a yes."""

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
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, TypeVar

from dbg_client.shell.streams import has_cursor, tell, terminal_size, write_result
from dbg_client.verbs.preferences import PAGER
from dbg_client.verbs.verb import Answer, Format, Style
from dbg_client.views.table import text_width
from dbg_wire.errors import NeedsAnswer

_LESS = "FRX"
"""Options of less, unless the user has chosen some: leave a short text alone, show colours, leave the text there."""

_NOT_RUN = (126, 127)
"""Exit status of a shell that can't run what it was told."""


def written(answer: Answer, form: Format, style: Style) -> str:
    """Return an answer as the user wants it: as one JSON document, or as the text for people."""
    return json.dumps(answer.document()) + "\n" if form is Format.JSON else answer.text(style)


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
    return pager != PAGER or shutil.which(PAGER, path=environ.get("PATH")) is not None


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
    data = text.encode(sys.stdout.encoding, "backslashreplace")
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


_SIGNALS = (signal.SIGINT, signal.SIGHUP)
"""What Ctrl-C sends, and a terminal that closes."""


async def agrees(question: str, without_terminal: str) -> bool:
    """Ask, and return whether the answer is yes; if not, say that nothing was done. Raises NeedsAnswer."""
    if not sys.stdin.isatty():
        raise NeedsAnswer(without_terminal, "add -y to do it unasked")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    try:
        line = await _read_line()
    except asyncio.CancelledError:  # Ctrl-C
        tell("\nNothing was done.")
        raise
    if not line.endswith("\n"):
        tell("")  # Ctrl-D leaves the cursor behind the question
    if line.strip().lower() in ("y", "yes"):
        return True
    tell("Nothing was done.")
    return False


async def _read_line() -> str:
    # Not in a thread: Ctrl-C could not end a read there.
    loop = asyncio.get_running_loop()
    read: asyncio.Future[bytes] = loop.create_future()
    stdin = sys.stdin.fileno()

    def take() -> None:
        if not read.done():
            read.set_result(os.read(stdin, 4096))

    loop.add_reader(stdin, take)
    try:
        return (await read).decode("utf-8", "replace")
    finally:
        loop.remove_reader(stdin)


T = TypeVar("T")


async def unless_given_up(work: Coroutine[Any, Any, T]) -> T | None:
    """Return the work's result; None if the user gives up, which cancels the work. Runs in the main thread."""
    loop = asyncio.get_running_loop()
    former = [(number, signal.getsignal(number)) for number in _SIGNALS]
    task = loop.create_task(work)
    for number in _SIGNALS:
        loop.add_signal_handler(number, task.cancel)
    try:
        (done, _) = await asyncio.wait({task})
    finally:
        task.cancel()
        for number, handler in former:
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
    (ended,) = done
    return None if ended.cancelled() else ended.result()
