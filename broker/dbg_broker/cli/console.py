"""Lines on stdout and stderr, and the directories that a command line names."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable

from dbg_wire.errors import BadInput, CantPrint

Say = Callable[[str], None]
"""Print one line."""


def prepare_streams() -> None:
    """Let both streams write what their encoding lacks escaped."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def silence_stdout() -> None:
    """Lead stdout to the null device: Python would report once more, while it exits, that it can't be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(line: str) -> None:
    """Write a line to stdout. Raise CantPrint, and BrokenPipeError if its reader has enough."""
    write(f"{line}\n")


def write(text: str) -> None:
    """Write to stdout. Raise CantPrint, and BrokenPipeError if its reader has enough."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CantPrint(error.strerror or type(error).__name__) from None


def say_aside(line: str) -> None:
    """Write a line to stderr; a terminal that was closed is no error."""
    with contextlib.suppress(OSError):
        print(f"dbg-broker: {line}", file=sys.stderr, flush=True)


def columns() -> int | None:
    """Return the width of the terminal that stdout is; None if it is none."""
    with contextlib.suppress(OSError, ValueError):
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    return None


def directory_of(path: str | None) -> str:
    """Return the directory that a path starts from. Raise BadInput if the path needs it and it was removed."""
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        if path is None or os.path.isabs(path):  # noqa: PTH117
            return "/"
        raise BadInput("the current directory was removed", "change to one that is there") from None


def home_of(given: argparse.Namespace) -> str:
    """Return the broker's home: --home, $DBG_HOME, or the default. Raise BadInput."""
    from dbg_broker.settings import home

    return home(given.home, os.environ, directory_of(given.home))
