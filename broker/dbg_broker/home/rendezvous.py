"""The broker's home on disk: a directory closed to others, ``broker.json`` and ``driver.json`` in it, and a lock.

Modes never depend on the umask: everything is made closed and then set to its exact mode.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path
from types import TracebackType

from dbg_broker.home.path import check_way
from dbg_dial.apart import apart
from dbg_dial.find import DRIVER_FILE, RENDEZVOUS_FILE, check_own, open_at_once
from dbg_wire.errors import BadSecretFile, printable
from dbg_wire.finding.home import ANOTHER_HOME, check_closed
from dbg_wire.finding.rendezvous import Rendezvous, format_driver_tokens, format_rendezvous, parse_rendezvous

LOCK_FILE = "serve.lock"

MAX_PRIVATE_FILE = 256 * 1024
"""Bytes read of a file in the home: the largest, a certificate with its chain, has a few KiB; more is a wrong file."""

NO_LOCKS_HERE = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
"""Errors of flock where there are no locks: NFS without its lock daemon, FUSE, Lustre mounted without ``flock``."""

_HELD_BY_OTHER = frozenset({errno.EWOULDBLOCK, errno.EACCES})
"""Errors of flock for a lock that is held: its own, and that of NFS, which makes a byte-range lock of it."""

_START_AGAIN = "remove it and start `dbg-broker serve` again"


def open_home(path: str) -> Path:
    """Return the home directory, made with mode 0700 if it is missing, its missing parents too.

    Raise BadSecretFile if it is no directory, another user's, open to others, below a directory in which others could
    replace it, or can't be made, and SilentFile if its file server does not answer.
    """
    return apart(path, lambda: _open_home(path))


def _open_home(path: str) -> Path:
    home, shown = Path(path), printable(path)
    try:
        if not home.exists():
            check_way(home)
            make_private_directory(home)
        found = home.stat()
    except OSError as error:
        raise BadSecretFile(f"the directory {shown} can't be made ({error.strerror})", ANOTHER_HOME) from error
    if not stat.S_ISDIR(found.st_mode):
        raise BadSecretFile(f"{shown} is not a directory", ANOTHER_HOME)
    if found.st_uid != os.geteuid():
        raise BadSecretFile(f"the directory {shown} belongs to user {found.st_uid}, not to you", ANOTHER_HOME)
    check_closed(found.st_mode, path)
    check_way(home)
    # The kernel may remember all of the above; it asks the file server again when a file is opened.
    with contextlib.suppress(OSError), open_at_once(str(home / RENDEZVOUS_FILE)):
        return home
    return home


def make_private_directory(path: Path) -> None:
    """Make a directory and its missing parents with mode 0700; one that is there stays as it is. Raise OSError."""
    if path.exists():
        return
    make_private_directory(path.parent)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    path.chmod(0o700)


def write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600, whole or not at all; readers see the old text or the new. Raise BadSecretFile."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                os.fchmod(descriptor, 0o600)
                file.write(text)
                file.flush()
                # Without this a crash of the host could leave the new name with nothing in it.
                os.fsync(descriptor)
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise cant_write(path, error) from error


def cant_write(path: Path, error: OSError) -> BadSecretFile:
    """Return the error of a file of the home that can't be written for this reason."""
    what_to_do = "make room there, or set DBG_HOME"
    return BadSecretFile(f"{printable(str(path))} can't be written ({error.strerror})", what_to_do)


def read_private(path: Path, *, others_may_read: bool = False) -> str | None:
    """Return the text of a file that only this user (or root) can have written, or None if there is none.

    Raise BadSecretFile if others can write it, or read it unless they may, or if it can't be read.
    """
    shown = printable(str(path))
    try:
        with open_at_once(str(path)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise BadSecretFile(f"{shown} is not a regular file", _START_AGAIN)
            check_own(file, str(path), os.geteuid(), others_may_read=others_may_read)
            content = file.read(MAX_PRIVATE_FILE + 1)
        if len(content) <= MAX_PRIVATE_FILE:
            return content.decode("utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadSecretFile(f"{shown} can't be read ({error.strerror})", _START_AGAIN) from error
    except UnicodeDecodeError:
        pass
    raise BadSecretFile(f"{shown} is too large or not text, so not ours", _START_AGAIN)


def write_rendezvous(home: Path, rendezvous: Rendezvous) -> None:
    """Put ``driver.json`` and ``broker.json`` into the home, in place of older ones. Raise BadSecretFile."""
    # A terminal reads broker.json first, so the other file must be there by then.
    write_private(home / DRIVER_FILE, format_driver_tokens(rendezvous.driver_tokens) + "\n")
    write_private(home / RENDEZVOUS_FILE, format_rendezvous(rendezvous) + "\n")


def read_rendezvous(home: Path) -> Rendezvous | None:
    """Return what ``broker.json`` says, or None if there is none; ``driver.json`` is not opened.

    Raise BadSecretFile if the file can't be used.
    """
    path = home / RENDEZVOUS_FILE
    text = read_private(path)
    return None if text is None else parse_rendezvous(text, str(path))


def remove_rendezvous(home: Path, *, pid: int, host: str) -> bool:
    """Remove both files if they are still those of this process, and tell whether they were. Raise nothing."""
    try:
        rendezvous = read_rendezvous(home)
        if rendezvous is None or (rendezvous.pid, rendezvous.host) != (pid, host):
            return False
        (home / RENDEZVOUS_FILE).unlink()
        (home / DRIVER_FILE).unlink(missing_ok=True)
    except (BadSecretFile, OSError):
        return False
    return True


class HomeLock:
    """Lock of the home for one broker until :meth:`release`, or until the process ends.

    ``certain`` is False where the file system has no locks: another broker may then serve here as well.
    """

    def __init__(self, descriptor: int, *, certain: bool) -> None:
        self._descriptor: int | None = descriptor
        self.certain = certain

    def release(self) -> None:
        """Let other brokers serve; a second call does nothing. Removing the file would let two brokers hold it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> HomeLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def lock(home: Path) -> HomeLock | None:
    """Take the home's lock without waiting; None if another broker has it. Raise BadSecretFile if it can't be made."""
    path = home / LOCK_FILE
    try:
        # Opened for writing, since NFS grants an exclusive lock only then.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.fchmod(descriptor, 0o600)
    except OSError as error:
        raise BadSecretFile(f"{printable(str(path))} can't be made ({error.strerror})", ANOTHER_HOME) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in NO_LOCKS_HERE:
            return HomeLock(descriptor, certain=False)
        os.close(descriptor)
        if error.errno in _HELD_BY_OTHER:
            return None
        raise BadSecretFile(f"{printable(str(path))} can't be locked ({error.strerror})", ANOTHER_HOME) from error
    return HomeLock(descriptor, certain=True)
