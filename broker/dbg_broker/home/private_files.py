"""Private files and directories: closed to other users, written atomically, in directories that others can't replace.

Modes never depend on the umask: everything is created closed and then set to its exact mode.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from dbg_command.home import make_private_directory, write_whole
from dbg_dial.find import check_own, open_at_once
from dbg_dial.home import ANOTHER_HOME, SOLE_USER, check_above, check_closed, is_closed
from dbg_wire.errors import BadSecretFile, printable

MAX_PRIVATE_FILE = 1024 * 1024
"""Maximum size of a file in the home, in bytes: the largest valid one, a full list of issued tokens, has 0.7 MiB."""

MAX_LINKS = 40
"""Maximum number of symbolic links on one path, as in Linux."""

ALL_USERS = 4294967295
"""Size of the uid range if the user namespace maps every user, as the initial namespace does."""

_START_AGAIN = "remove it and start `dbg-broker serve` again"


def open_home(path: str) -> Path:
    """Return the home directory. If it is missing, create it and its parents with mode 0700.

    Raise BadSecretFile if it is not a directory, belongs to another user, is open to others, or can't be created. Raise
    it also if other users could replace a directory above the home.
    """
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
    return home


def write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600 atomically: readers see the old text or the new one. Raise BadSecretFile."""
    try:
        write_whole(path, text, lasting=True)
    except OSError as error:
        what = f"{printable(str(path))} can't be written ({error.strerror})"
        raise BadSecretFile(what, "free some space there, or set DBG_HOME") from error


def read_private(path: Path, *, others_may_read: bool = False) -> str | None:
    """Return the text of a file that only this user or root can have written, or None if it does not exist.

    Raise BadSecretFile if others can write it, if others can read it without ``others_may_read``, or if it can't be
    read.
    """
    try:
        return _text_of(path, printable(str(path)), _START_AGAIN, others_may_read=others_may_read)
    except FileNotFoundError:
        return None


def read_given(path: Path, option: str, remedy: str, *, others_may_read: bool = False) -> str:
    """Return the text of a file that an option names and that only the user or root can have written.

    Raise BadSecretFile if others can write it, if others can read it without ``others_may_read``, or if it does not
    exist.
    """
    named = f"{option} {printable(str(path))}"
    try:
        return _text_of(path, named, remedy, others_may_read=others_may_read)
    except FileNotFoundError as error:
        raise BadSecretFile(f"{named} can't be read ({error.strerror})", remedy) from None


def _text_of(path: Path, named: str, remedy: str, *, others_may_read: bool) -> str:
    """Return the text of a file that only this user or root can have written. Raise FileNotFoundError, BadSecretFile.

    ``named`` is the start of the error's sentence, and ``remedy`` its end.
    """
    try:
        with open_at_once(str(path)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise BadSecretFile(f"{named} is not a regular file", remedy)
            check_own(file, str(path), os.geteuid(), others_may_read=others_may_read)
            content = file.read(MAX_PRIVATE_FILE + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BadSecretFile(f"{named} can't be read ({error.strerror})", remedy) from error
    if len(content) <= MAX_PRIVATE_FILE:
        with contextlib.suppress(UnicodeDecodeError):
            return content.decode("utf-8")
    raise BadSecretFile(f"{named} is too large or not text, so it is not the right file", remedy)


def check_way(home: Path) -> None:
    """Raise BadSecretFile if other users could replace the home, because they may write to a directory above it.

    The error names that directory. Missing directories are skipped. Raise OSError if one can't be inspected.
    """
    # The check is skipped in a container without other users: there a Kubernetes volume belongs to root, and every
    # user may write to it.
    if os.environ.get(SOLE_USER) == "1":
        return
    trusted = _trusted_users()
    closed: Path | None = None
    for directory in _directories_to(home):
        found = directory.stat()
        mode = found.st_mode & ~0o022 if closed is not None and directory.is_relative_to(closed) else found.st_mode
        if mode & 0o022 == stat.S_IWGRP and found.st_uid == os.geteuid() and _is_our_own_group(found.st_gid):
            mode &= ~stat.S_IWGRP
        check_above(mode, found.st_uid, trusted, str(directory))
        if closed is None and found.st_uid == os.geteuid() and is_closed(found.st_mode):
            closed = directory


def _directories_to(path: Path) -> Iterator[Path]:
    """Yield each directory that the kernel passes on its way to ``path``, also through symbolic links."""
    here, links = Path("/"), 0
    names = list(reversed(path.absolute().parts[1:]))
    while names:
        yield here
        name = names.pop()
        if name == "..":
            here = here.parent
            continue
        beside = here / name
        try:
            target = beside.readlink()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            here = beside
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        here = Path("/") if target.is_absolute() else here
        names.extend(reversed([part for part in target.parts if part != "/"]))


def _trusted_users() -> frozenset[int]:
    """Return the users that may own the directories: this user, root, and the substitute for root in a container."""
    trusted = {0, os.geteuid()}
    with contextlib.suppress(OSError, ValueError):
        maps = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
        if sum(int(count) for _, _, count in maps) < ALL_USERS:
            trusted.add(int(Path("/proc/sys/kernel/overflowuid").read_text()))
    return frozenset(trusted)


def _is_our_own_group(number: int) -> bool:
    """Return True if a group contains only the user. Many systems create one for each user, with a umask of 002."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(number)
    except KeyError:
        return False
    return user.pw_gid == number and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


T = TypeVar("T")

State = tuple[int, ...]
"""Device, inode, size, and times of the last change of a file, or the error number if it can't be opened."""


class Watched(Generic[T]):
    """A value that is read from files; ``value`` is the last result. Use it in one thread at a time."""

    def __init__(self, files: Sequence[Path], read: Callable[[], T]) -> None:
        """Read the value. Raise the errors of ``read``."""
        self._files = tuple(files)
        self._read = read
        self._seen = self._states()
        self.value = read()

    def is_changed(self) -> bool:
        """Read the value again if a file has changed. Return True if the value has changed.

        Raise the errors of ``read``; the next call then reads again.
        """
        states = self._states()
        if states == self._seen:
            return False
        value, before = self._read(), self.value
        # The states were taken before the files were read, so the next call sees a change in between.
        self._seen, self.value = states, value
        return value != before

    def _states(self) -> tuple[State, ...]:
        return tuple(map(state_of, self._files))


def state_of(path: Path) -> State:
    """Return the state of a file as its file server knows it: opening a file makes the kernel ask the server again."""
    try:
        with open_at_once(str(path)) as file:
            found = os.fstat(file.fileno())
    except OSError as error:
        return (error.errno or 0,)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
