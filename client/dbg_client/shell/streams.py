"""Standard streams of the command: results go to stdout, messages for people go to stderr."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import TextIO

from dbg_wire.errors import OutputError


def prepare_streams() -> None:
    """Open closed streams, and make stdout and stderr escape characters that their encoding does not have."""
    # Open the streams in the order of their descriptors: each gets the lowest free descriptor, so it gets its own.
    # A closed stdout is opened read-only, because writes to it must fail.
    sys.stdin = sys.stdin or _nowhere(os.O_RDONLY, "r")
    sys.stdout = sys.stdout or _nowhere(os.O_RDONLY, "w")
    sys.stderr = sys.stderr or _nowhere(os.O_WRONLY, "w")
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _nowhere(flags: int, mode: str) -> TextIO:
    return io.TextIOWrapper(io.FileIO(os.open(os.devnull, flags), mode), encoding="utf-8")


class _WaitingOnTerminal:
    """Line on stderr's terminal that shows what the command waits for; the next output replaces it."""

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
    """Write a result to stdout. Raises OutputError, or BrokenPipeError if the reader has closed the pipe."""
    show_waiting(None)
    with printing():
        sys.stdout.write(text)
        sys.stdout.flush()


@contextlib.contextmanager
def printing() -> Iterator[None]:
    """Convert a write error of stdout to OutputError, except BrokenPipeError: then the reader has read enough."""
    try:
        yield
    except BrokenPipeError:
        silence(sys.stdout)
        raise
    except OSError as error:
        silence(sys.stdout)
        raise OutputError(error.strerror or type(error).__name__) from None


def notify(sentence: str) -> None:
    """Write one line for people to stderr; ignore a terminal that is gone."""
    show_waiting(None)
    try:
        sys.stderr.write(f"{sentence}\n")
        sys.stderr.flush()
    except OSError:
        silence(sys.stderr)


def show_waiting(line: str | None) -> None:
    """Show a line on stderr if that is a terminal, until other output replaces the line; None removes it."""
    _WAITING.show(line)


def terminal_size() -> tuple[int, int]:
    """Return the (rows, columns) of the terminal, or 24 by 80 without a terminal."""
    columns, rows = shutil.get_terminal_size()
    return rows, columns


def columns_of_stdout() -> int | None:
    """Return the number of columns of stdout, or None if it is not a terminal."""
    return terminal_size()[1] if sys.stdout.isatty() else None


def has_cursor(environ: Mapping[str, str]) -> bool:
    """Return True if the terminal's cursor can be moved, according to TERM."""
    return environ.get("TERM", "") not in ("", "dumb", "unknown")


def silence(stream: TextIO) -> None:
    """Redirect a stream without a reader to the null device, because the flush at interpreter exit would fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
    with contextlib.suppress(OSError):
        stream.flush()
