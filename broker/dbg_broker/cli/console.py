"""Output to stdout and stderr, and the directories that a command line names."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable

from dbg_wire.errors import BadInput, OutputError

PrintLine = Callable[[str], None]
"""Prints one line."""


def prepare_streams() -> None:
    """Make both streams write escapes for characters that their encoding does not support."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def silence_stdout() -> None:
    """Redirect stdout to the null device. Otherwise Python reports at exit that stdout can't be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_line(line: str) -> None:
    """Write a line to stdout. Raise OutputError, or BrokenPipeError if its reader has closed the pipe."""
    write(f"{line}\n")


def write(text: str) -> None:
    """Write to stdout. Raise OutputError, or BrokenPipeError if its reader has closed the pipe."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error.strerror or type(error).__name__) from None


def print_note(line: str) -> None:
    """Write a line to stderr. Ignore a closed terminal."""
    with contextlib.suppress(OSError):
        print(f"dbg-broker: {line}", file=sys.stderr, flush=True)


def columns() -> int | None:
    """Return the width of the terminal on stdout, or None if stdout is not a terminal."""
    with contextlib.suppress(OSError, ValueError):
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    return None


def directory_of(path: str | None) -> str:
    """Return the directory that a relative path starts from.

    Raise BadInput if ``path`` is relative and the directory was removed.
    """
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        if path is None or os.path.isabs(path):  # noqa: PTH117
            return "/"
        raise BadInput("the current directory was removed", "change to an existing one") from None


def home_of(given: argparse.Namespace) -> str:
    """Return the broker's home: --home, $DBG_HOME, or the default. Raise BadInput."""
    from dbg_broker.settings import home

    return home(given.home, os.environ, directory_of(given.home))
