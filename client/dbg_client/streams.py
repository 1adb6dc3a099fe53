"""The standard streams of the command: results go to stdout, what is said to people goes to stderr."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TextIO


def write_result(text: str) -> None:
    """Write a result, as it is, to stdout."""
    sys.stdout.write(text)
    sys.stdout.flush()


def tell(sentence: str) -> None:
    """Write one line for people to stderr; a terminal that has gone away is no reason to fail."""
    try:
        sys.stderr.write(f"{sentence}\n")
        sys.stderr.flush()
    except OSError:
        silence(sys.stderr)


def terminal_size() -> tuple[int, int]:
    """Return the (rows, columns) of the terminal, 24 by 80 where there is none."""
    columns, rows = shutil.get_terminal_size()
    return rows, columns


def silence(stream: TextIO) -> None:
    """Lead a stream whose reader is gone to the null device: else the interpreter's exit fails to write the rest."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
