"""Address and locks of a home: ``broker.json`` and ``driver.json``, the broker's lock, and the lock of the tokens."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from dbg_broker.home.private_files import read_private, write_private
from dbg_command.home import NO_LOCKS_HERE
from dbg_dial.endpoint import RENDEZVOUS_FILE, Rendezvous, format_driver_tokens, format_rendezvous, parse_rendezvous
from dbg_dial.find import DRIVER_FILE
from dbg_dial.home import ANOTHER_HOME
from dbg_wire.errors import BadSecretFile, printable

LOCK_FILE = "serve.lock"


_HELD_BY_OTHER = frozenset({errno.EWOULDBLOCK, errno.EACCES})
"""Errors of flock if another process holds the lock: the usual one, and the one of NFS, which locks byte ranges."""

TOKENS_LOCK_FILE = "tokens.lock"


def write_rendezvous(home: Path, rendezvous: Rendezvous) -> None:
    """Write ``driver.json`` and ``broker.json`` into the home, replacing older ones. Raise BadSecretFile."""
    # Written first, because a terminal reads broker.json and then expects this file.
    write_private(home / DRIVER_FILE, format_driver_tokens(rendezvous.driver_tokens) + "\n")
    write_private(home / RENDEZVOUS_FILE, format_rendezvous(rendezvous) + "\n")


def read_rendezvous(home: Path) -> Rendezvous | None:
    """Return the content of ``broker.json``, or None if it does not exist; ``driver.json`` is not opened.

    Raise BadSecretFile if the file can't be used.
    """
    path = home / RENDEZVOUS_FILE
    text = read_private(path)
    return None if text is None else parse_rendezvous(text, str(path))


def remove_rendezvous(home: Path, *, pid: int, host: str) -> None:
    """Remove both files if they still belong to this process. Raise nothing."""
    with contextlib.suppress(BadSecretFile, OSError):
        rendezvous = read_rendezvous(home)
        if rendezvous is not None and (rendezvous.pid, rendezvous.host) == (pid, host):
            (home / RENDEZVOUS_FILE).unlink()
            (home / DRIVER_FILE).unlink(missing_ok=True)


def lock(home: Path) -> FileIO | None:
    """Take the lock of the home's broker without waiting. Return None if another process holds it.

    The lock is held until the returned file is closed or the process ends. On a file system without locks, another
    broker may serve the same home. The file is never removed, because then two brokers could hold the lock. Raise
    BadSecretFile if the file can't be created or locked.
    """
    path = home / LOCK_FILE
    held = FileIO(_open_lock(path))
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in NO_LOCKS_HERE:
            return held
        held.close()
        if error.errno in _HELD_BY_OTHER:
            return None
        raise _cant_lock(path, error) from error
    return held


@contextlib.contextmanager
def tokens_locked(home: Path) -> Iterator[None]:
    """Lock the tokens of a home; wait while another command changes them. Raise BadSecretFile.

    Without file locks this gives no mutual exclusion.
    """
    path = home / TOKENS_LOCK_FILE
    descriptor = _open_lock(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in NO_LOCKS_HERE:
                raise _cant_lock(path, error) from error
        yield
    finally:
        os.close(descriptor)


_MAKE_ROOM = "free some space there, or set DBG_HOME"


def _open_lock(path: Path) -> int:
    try:
        # Opened for writing, because NFS grants an exclusive lock only then.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.fchmod(descriptor, 0o600)
    except OSError as error:
        raise BadSecretFile(f"{printable(str(path))} can't be made ({error.strerror})", _MAKE_ROOM) from error
    return descriptor


def _cant_lock(path: Path, error: OSError) -> BadSecretFile:
    return BadSecretFile(f"{printable(str(path))} can't be locked ({error.strerror})", ANOTHER_HOME)
