"""Show an answer, through the user's pager if it is long, and ask the user for confirmation."""

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

from dbg_client.shell.streams import has_cursor, notify, terminal_size, write_result
from dbg_client.verbs.preferences import PAGER
from dbg_client.verbs.verb import Answer, Format, Style
from dbg_client.views.table import text_width
from dbg_wire.errors import NeedsAnswer

_LESS = "FRX"
"""Options of less if the user has set none: don't page a short text, show colours, leave the text on the screen."""

_NOT_RUN = (126, 127)
"""Exit statuses of a shell that can't run its command."""


def written(answer: Answer, form: Format, style: Style) -> str:
    """Return an answer in the requested form: as one JSON document, or as text for people."""
    return json.dumps(answer.document()) + "\n" if form is Format.JSON else answer.text(style)


_COLOR = re.compile(r"\x1b\[[0-9;]*m")


async def show_result(text: str, pager: str) -> None:
    """Write a result to stdout, or show it in ``pager`` if it is longer than the terminal and ``pager`` is not empty.

    While the pager runs, it handles Ctrl-C. If the pager can't be run, the result is printed directly.
    Raises OutputError.
    """
    usable = is_usable(pager, os.environ) and sys.stdout.isatty()
    if not usable or fits(text, *terminal_size()) or not await page(text, pager):
        write_result(text)


def is_usable(pager: str, environ: Mapping[str, str]) -> bool:
    """Return True if this pager can show a text in this terminal. ``cat`` or an empty command means no pager."""
    if pager.strip() in ("", "cat") or not has_cursor(environ):
        return False
    return pager != PAGER or shutil.which(PAGER, path=environ.get("PATH")) is not None


def fits(text: str, rows: int, columns: int) -> bool:
    """Return True if a text and the prompt after it fit on the screen."""
    needed = 1
    for line in text.split("\n")[:-1]:
        needed += max(1, -(-text_width(_COLOR.sub("", line)) // max(1, columns)))
        if needed > rows:
            return False
    return True


async def page(text: str, pager: str, less: str = "") -> bool:
    """Show a text in the user's pager until the user leaves it. Return True if the pager ran.

    ``less`` are options for less that override the user's options. The pager is terminated if its task is cancelled.
    """
    data = text.encode(sys.stdout.encoding, "backslashreplace")
    environ = {**os.environ, "LESS": f"{os.environ.get('LESS', _LESS)} {less}"}
    command = ("/bin/sh", "-c", pager)
    with _pager_handles_ctrl_c():
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
def _pager_handles_ctrl_c() -> Iterator[None]:
    # Ignore Ctrl-C with a handler and not with SIG_IGN, because the pager would inherit SIG_IGN.
    former = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


_SIGNALS = (signal.SIGINT, signal.SIGHUP)
"""Signals of Ctrl-C and of a terminal that closes."""


async def confirms(question: str, without_terminal: str) -> bool:
    """Ask the user and return True for yes; otherwise report that nothing was done. Raises NeedsAnswer."""
    if not sys.stdin.isatty():
        raise NeedsAnswer(without_terminal, "add -y to skip the question")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    try:
        line = await _read_line()
    except asyncio.CancelledError:  # Ctrl-C
        notify("\nNothing was done.")
        raise
    if not line.endswith("\n"):
        notify("")  # Ctrl-D has not ended the line of the question, so end it
    if line.strip().lower() in ("y", "yes"):
        return True
    notify("Nothing was done.")
    return False


async def _read_line() -> str:
    # Don't read in a thread, because Ctrl-C could not end the read.
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


async def cancel_on_ctrl_c(work: Coroutine[Any, Any, T]) -> T | None:
    """Await ``work`` and return its result. Ctrl-C or SIGHUP cancels it and returns None. Main thread only."""
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
