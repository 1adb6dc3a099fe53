"""The user's home directory and its protection, environment variables of several roles, and the kernel's identity.

Callers pass variables and ``stat`` results as arguments, so that agent, terminal and broker use the same rules.
``dbg_agent.autostart`` and ``dbg_agent.launch`` run in every interpreter of a job. To start fast they don't import this
module; they define the names of their variables again.
"""

from __future__ import annotations

import os
import posixpath
import shlex
import stat
from collections.abc import Collection, Mapping

from dbg_wire.errors import BadInput, BadSecretFile, printable

BROKER = "DBG_BROKER"
"""Address of the broker, with its fingerprint after ``#``."""

CA = "DBG_CA"
"""PEM file of authorities. One of them must have signed the broker's certificate."""

HOME = "DBG_HOME"
"""Directory of broker.json, tokens and certificate."""

SOLE_USER = "DBG_SOLE_USER"
"""``1`` means that this host has no other users, as in a container; see ``dbg_broker.home.private_files``."""

TOKEN = "DBG_TOKEN"  # noqa: S105 - a variable's name
TOKEN_FILE = "DBG_TOKEN_FILE"  # noqa: S105 - a variable's name
"""The token itself, and the file that contains it. The file takes precedence if both are set."""

AUTOSTART = "DBG_AUTOSTART"
"""Turns the programs of a job into ranks. ``dbg-attach run`` sets it to its process id, a job script to any word. A
rank replaces the value with its claim to be the rank, so that its child processes know that they are not the rank."""

JOB = "DBG_JOB"
"""Name of the job."""

STOP_AT = "DBG_STOP_AT"
STOP_IN = "DBG_STOP_IN"
"""Places where ranks of a job stop, one per line."""

NUMBERS = "DBG_NUMBERS"
"""Watch over the numbers of a training: a :class:`~dbg_wire.records.numbers.NumbersQuestion` as JSON."""

RANKS = "DBG_RANKS"
"""Ranks that stop; the others are held."""

ENGINE = "DBG_ENGINE"
"""Debugger that opens if neither the terminal nor the stop names one."""

POST_MORTEM = "DBG_POST_MORTEM"
"""Keeps a rank with an uncaught exception stopped, for post-mortem debugging."""

COLLECTIVE_TIMEOUT = "DBG_COLLECTIVE_TIMEOUT"
"""Timeout of collectives, in seconds."""

EXEC = "DBG_EXEC"
"""``0`` means that users may not run commands on this rank's host."""

ANOTHER_HOME = "set DBG_HOME to a directory of your own"


def check_private(mode: int, uid: int, own_uid: int, path: str) -> None:
    """Reject a secret file that other users could have read or written, by its ``st_mode`` and ``st_uid``.

    A file of this user must not be accessible to group and others. A file of root (a mounted secret) may be readable
    for others, but not writable. A file of any other user is rejected. A pipe, socket or character device is accepted
    if it belongs to this user or root. Raise BadSecretFile with the command that fixes it.
    """
    shown, typed = printable(path), printable(shlex.quote(path))
    if stat.S_ISDIR(mode):
        raise BadSecretFile(f"{shown} is a directory", "name a file in it")
    if uid not in (own_uid, 0):
        raise BadSecretFile(f"{shown} belongs to user {uid}, who is neither you nor root", "use a copy of your own")
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode):
        return
    # A user who can write the file can name another broker in it and so control a rank. That is worse than reading it.
    if uid == own_uid and mode & 0o066:
        raise BadSecretFile(f"{shown} is open to others (mode {mode & 0o777:03o})", f"type `chmod 600 {typed}`")
    if mode & 0o022:
        raise BadSecretFile(f"{shown} can be written by others (mode {mode & 0o777:03o})", f"type `chmod go-w {typed}`")


def check_closed(mode: int, path: str) -> None:
    """Reject a home directory that other users can access, by its ``st_mode``. Raise BadSecretFile."""
    if mode & 0o077:
        raise BadSecretFile(
            f"the directory {printable(path)} is open to others (mode {mode & 0o777:03o})",
            f"type `chmod 700 {printable(shlex.quote(path))}`",
        )


def check_above(mode: int, uid: int, trusted: Collection[int], path: str) -> None:
    """Reject a directory above a home if other users could replace the home in it, by ``st_mode`` and ``st_uid``.

    The directory must belong to one of ``trusted`` (this user and root). Other users may write to it only if it is
    sticky, as sshd requires for the directories above its keys. Raise BadSecretFile with the directory's path.
    """
    shown = printable(path)
    if uid not in trusted:
        what = f"the home is below {shown}, which belongs to user {uid}, who is neither you nor root"
        raise BadSecretFile(what, ANOTHER_HOME)
    if mode & 0o022 and not mode & stat.S_ISVTX:
        raise BadSecretFile(
            f"the home is below {shown}, where others can replace it (mode {mode & 0o777:03o})",
            f"{ANOTHER_HOME}, or type `chmod go-w {printable(shlex.quote(path))}`",
        )


def is_closed(mode: int) -> bool:
    """Return True if only a directory's owner can access the files below it, so their own modes don't matter."""
    return not mode & 0o011


def home_directory(environ: Mapping[str, str]) -> str:
    """Return the directory of broker.json, tokens and certificate.

    It is $DBG_HOME, otherwise a directory under $XDG_STATE_HOME or ~/.local/state. Raise BadInput if DBG_HOME is
    relative, or if no variable names a home.
    """
    own = environ.get(HOME, "")
    if own:
        if not posixpath.isabs(own):
            raise BadInput(f"DBG_HOME {printable(own)!r} is a relative path", "set it to an absolute path")
        return own
    state, user = environ.get("XDG_STATE_HOME", ""), environ.get("HOME", "")
    if posixpath.isabs(state):
        return posixpath.join(state, "dbg-broker")
    if posixpath.isabs(user):
        return posixpath.join(user, ".local", "state", "dbg-broker")
    raise BadInput("HOME is not set, so the home directory is unknown", ANOTHER_HOME)


def kernel_name(proc: str = "/proc") -> str | None:
    """Return an identifier of this boot and process-id namespace, or None if it can't be read.

    A process id from another process is valid here only if both processes have the same identifier.
    """
    try:
        with open(f"{proc}/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123 - no pathlib in a rank
            boot = file.read().strip()
        return f"{boot}/{os.stat(f'{proc}/self/ns/pid').st_ino}"  # noqa: PTH116
    except (OSError, UnicodeDecodeError):
        return None
