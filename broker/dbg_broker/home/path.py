"""The directories above the broker's home or recordings: whether other users could put another in their place."""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from dbg_wire.finding.environment import SOLE_USER
from dbg_wire.finding.home import ANOTHER_HOME, check_above, is_closed

MAX_LINKS = 40
"""Symbolic links on one way, Linux's own bound."""

ALL_USERS = 4294967295
"""Users of a user namespace that has all of them, as the host's own has."""


def check_way(home: Path, what: str = "the home", remedy: str = ANOTHER_HOME) -> None:
    """Raise BadSecretFile, naming the directory, if one above the home lets other users replace it.

    Directories that are missing are passed over. Raise OSError if one can't be looked at. ``what`` and ``remedy`` are
    the sentence's, for another directory than the home.
    """
    # A volume of Kubernetes is a directory of root's in which each user of its container may write.
    if os.environ.get(SOLE_USER) == "1":
        return
    trusted = _trusted_users()
    closed: Path | None = None
    for directory in _directories_to(home):
        found = directory.stat()
        mode = found.st_mode & ~0o022 if closed is not None and directory.is_relative_to(closed) else found.st_mode
        if mode & 0o022 == stat.S_IWGRP and found.st_uid == os.geteuid() and _is_our_own_group(found.st_gid):
            mode &= ~stat.S_IWGRP
        check_above(mode, found.st_uid, trusted, str(directory), what=what, remedy=remedy)
        if closed is None and found.st_uid == os.geteuid() and is_closed(found.st_mode):
            closed = directory


def _directories_to(path: Path) -> Iterator[Path]:
    """Yield each directory that the kernel passes on its way to ``path``, those that links lead through too."""
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
    """Return the users that may own the directories: this user, root, and the stand-in for root in a container."""
    trusted = {0, os.geteuid()}
    with contextlib.suppress(OSError, ValueError):
        maps = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
        if sum(int(count) for _, _, count in maps) < ALL_USERS:
            trusted.add(int(Path("/proc/sys/kernel/overflowuid").read_text()))
    return frozenset(trusted)


def _is_our_own_group(number: int) -> bool:
    """Tell whether a group is the user's alone, as many systems make one for each user, with a umask of 002."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(number)
    except KeyError:
        return False
    return user.pw_gid == number and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
