"""Write what the command has to say: data to stdout, talk to stderr."""

from __future__ import annotations

import os
import sys
from typing import TextIO


def data(text: str) -> None:
    """Write a result, as it is, to stdout."""
    sys.stdout.write(text)
    sys.stdout.flush()


def talk(sentence: str) -> None:
    """Write one line for people to stderr; a terminal that has gone away is no reason to fail."""
    try:
        sys.stderr.write(f"{sentence}\n")
        sys.stderr.flush()
    except OSError:
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Lead a stream nowhere whose reader has gone, or else the interpreter fails at exit to write what is left."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
