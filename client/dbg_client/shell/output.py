"""The standard streams: answers go to stdout, through the user's pager, and messages and questions to stderr."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, TextIO, TypeVar

from dbg_client.verbs.preferences import PAGER
from dbg_client.verbs.verb import Answer, Format, Style
from dbg_client.views.table import text_width
from dbg_command.alike import HANDLER, look_alike
from dbg_wire.errors import CantPrint, NeedsAnswer

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


def prepare_streams() -> None:
    """Open streams that are closed, and let all write what their encoding lacks as look-alikes."""
    # In this order each takes the lowest free descriptor, its own. Writing to a closed stdout is to fail.
    sys.stdin = sys.stdin or _nowhere(os.O_RDONLY, "r")
    sys.stdout = sys.stdout or _nowhere(os.O_RDONLY, "w")
    sys.stderr = sys.stderr or _nowhere(os.O_WRONLY, "w")
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=HANDLER)


def _nowhere(flags: int, mode: str) -> TextIO:
    return io.TextIOWrapper(io.FileIO(os.open(os.devnull, flags), mode), encoding="utf-8")


class _WaitingOnTerminal:
    """What stderr's terminal shows of a wait: a line that whatever is written next takes away."""

    def __init__(self) -> None:
        self.is_shown = False

    def show(self, line: str | None) -> None:
        if line is None and not self.is_shown:
            return
        if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
            return
        try:
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            sys.stderr.write(f"\r{(line or '')[: columns - 1]}\x1b[K")
            sys.stderr.flush()
        except OSError:
            silence(sys.stderr)
        self.is_shown = line is not None


_WAITING = _WaitingOnTerminal()


def write_result(text: str) -> None:
    """Write a result to stdout. Raises CantPrint, and BrokenPipeError if its reader has enough."""
    show_waiting(None)
    with printing():
        sys.stdout.write(text)
        sys.stdout.flush()


@contextlib.contextmanager
def printing() -> Iterator[None]:
    """Turn an error of a write to stdout into CantPrint; BrokenPipeError stays, as its reader has enough."""
    try:
        yield
    except BrokenPipeError:
        silence(sys.stdout)
        raise
    except OSError as error:
        silence(sys.stdout)
        raise CantPrint(error.strerror or type(error).__name__) from None


def tell(sentence: str) -> None:
    """Write one line for people to stderr; a terminal that has gone away is no reason to fail."""
    show_waiting(None)
    try:
        sys.stderr.write(f"{sentence}\n")
        sys.stderr.flush()
    except OSError:
        silence(sys.stderr)


def show_waiting(line: str | None) -> None:
    """Show a line on stderr that stays until it is replaced or, with None, goes away; on a terminal only."""
    _WAITING.show(line)


def terminal_size() -> tuple[int, int]:
    """Return the (rows, columns) of the terminal, 24 by 80 where there is none."""
    columns, rows = shutil.get_terminal_size()
    return rows, columns


def columns_of_stdout() -> int | None:
    """Return the columns that a line of stdout may have; None where it is no terminal."""
    return terminal_size()[1] if sys.stdout.isatty() else None


def has_cursor(environ: Mapping[str, str]) -> bool:
    """Tell whether the terminal's cursor can be moved, as far as TERM says."""
    return environ.get("TERM", "") not in ("", "dumb", "unknown")


def silence(stream: TextIO) -> None:
    """Lead a stream whose reader is gone to the null device: else the interpreter's exit fails to write the rest."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
    with contextlib.suppress(OSError):
        stream.flush()


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
