"""The lock of a home's tokens: two commands that change them at once would write back what the other has taken out."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from dbg_broker.home.rendezvous import NO_LOCKS_HERE
from dbg_wire.errors import BadSecretFile, printable

LOCK_FILE = "tokens.lock"


@contextlib.contextmanager
def tokens_locked(home: Path) -> Iterator[None]:
    """Have the tokens of a home to oneself; wait while another command changes them. Raise BadSecretFile.

    Where the file system has no locks nobody is kept out.
    """
    path = home / LOCK_FILE
    try:
        # Opened for writing, since NFS grants an exclusive lock only then.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise BadSecretFile(
            f"{printable(str(path))} can't be made ({error.strerror})", "make room there, or set DBG_HOME"
        ) from error
    try:
        _lock(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in NO_LOCKS_HERE:
            raise BadSecretFile(
                f"{printable(str(path))} can't be locked ({error.strerror})", "set DBG_HOME to another directory"
            ) from error
