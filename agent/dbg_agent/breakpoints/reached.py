"""The stops that the children of a rank have reached, so that the rank doesn't report them as never reached.

An anonymous memory file holds two bytes for each stop. A child opens the file by its parent's descriptor, and checks
that the descriptor's number doesn't belong to another file by now.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from contextlib import suppress

VARIABLE = "DBG_STOPS_REACHED"
"""Tells children where the memory is: process, descriptor, device and inode."""

REACHED, HELD = 1, 2
"""What is told of a stop: the program was there; and its condition, if there is one, was true."""


def share(environ: MutableMapping[str, str]) -> None:
    """Make the memory, and tell the children of this process where it is."""
    with suppress(OSError, AttributeError):
        # memfd_create exists only on Linux, where ranks run.
        descriptor = os.memfd_create("dbg-agent-stops")
        status = os.fstat(descriptor)
        environ[VARIABLE] = f"{os.getpid()}:{descriptor}:{status.st_dev}:{status.st_ino}"


def note(value: str, number: int, what: int) -> None:
    """Note that a stop was reached, in the memory that the variable's ``value`` names; do nothing if that is gone.

    Several children may write at once: each of ``REACHED`` and ``HELD`` has a byte of its own, which is only ever set.
    """
    descriptor = _open(value)
    if descriptor is not None:
        with suppress(OSError):
            os.pwrite(descriptor, bytes([what]), 2 * number + what - 1)
        os.close(descriptor)


def noted(value: str, number: int) -> int:
    """Return what was noted of a stop, or 0."""
    descriptor = _open(value)
    if descriptor is None:
        return 0
    try:
        return max(os.pread(descriptor, 2, 2 * number), default=0)
    except OSError:
        return 0
    finally:
        os.close(descriptor)


def _open(value: str) -> int | None:
    parts = value.split(":")
    if len(parts) != 4 or not all(part.isdecimal() for part in parts):
        return None
    pid, number, device, inode = map(int, parts)
    try:
        # The open must not block, even if the number belongs to a pipe or a terminal by now.
        descriptor = os.open(f"/proc/{pid}/fd/{number}", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None
    status = os.fstat(descriptor)
    if (status.st_dev, status.st_ino) == (device, inode):
        return descriptor
    os.close(descriptor)
    return None
