"""Which stops the children of a rank have reached, so that the rank doesn't say that they never came.

One byte for each stop in memory that has no name; a child finds it by its parent's descriptor, and makes sure that
nothing else has that by now.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from contextlib import suppress

VARIABLE = "DBG_STOPS_REACHED"
"""Says to children where: process, descriptor, device and inode."""

REACHED, HELD = 1, 2
"""The program came there; and the condition, if there is one, was true."""


def share(environ: MutableMapping[str, str]) -> None:
    """Make the memory, and say to the children of this process where it is."""
    with suppress(OSError, AttributeError):
        # Of Linux alone, as ranks are.
        descriptor = os.memfd_create("dbg-agent-stops")
        status = os.fstat(descriptor)
        environ[VARIABLE] = f"{os.getpid()}:{descriptor}:{status.st_dev}:{status.st_ino}"


def tell(value: str, number: int, what: int) -> None:
    """Note in the memory that a variable names that a stop was reached; do nothing if it is gone."""
    descriptor = _open(value)
    if descriptor is not None:
        with suppress(OSError):
            os.pwrite(descriptor, bytes([what]), number)
        os.close(descriptor)


def told(value: str, number: int) -> int:
    """Return what was noted of a stop; 0 if nothing."""
    descriptor = _open(value)
    if descriptor is None:
        return 0
    try:
        return int.from_bytes(os.pread(descriptor, 1, number), "big")
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
        # Not waiting for anything, whatever stands there.
        descriptor = os.open(f"/proc/{pid}/fd/{number}", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None
    status = os.fstat(descriptor)
    if (status.st_dev, status.st_ino) == (device, inode):
        return descriptor
    os.close(descriptor)
    return None
