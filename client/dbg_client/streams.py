"""The standard streams of the command: results go to stdout, what is said to people goes to stderr."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TextIO


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
    """Write a result, as it is, to stdout."""
    show_waiting(None)
    sys.stdout.write(text)
    sys.stdout.flush()


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


def silence(stream: TextIO) -> None:
    """Lead a stream whose reader is gone to the null device: else the interpreter's exit fails to write the rest."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
