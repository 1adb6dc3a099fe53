"""Functions for the files of a home: atomic writes, watches for growth, tokens of jobs. Also the user's name."""

from __future__ import annotations

import base64
import errno
import os
from pathlib import Path

NO_LOCKS_HERE = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
"""Errors of flock on file systems without locks: NFS without its lock daemon, FUSE, Lustre without ``flock``."""


def make_private_directory(path: Path) -> None:
    """Make a directory and its missing parents with mode 0700; an existing one stays as it is. Raise OSError."""
    if path.exists():
        return
    make_private_directory(path.parent)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    path.chmod(0o700)


def write_whole(path: Path, text: str | bytes, *, mode: int = 0o600, lasting: bool = False) -> None:
    """Create a file, or replace it as a whole, regardless of the umask. Raise OSError, and leave no temporary file.

    With ``lasting`` the content is on the disk when this function returns. Otherwise a crash of the host could leave
    an empty file under the new name.
    """
    beside = path.with_name(f".{path.name[:100]}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(text.encode() if isinstance(text, str) else text)
            if lasting:
                file.flush()
                os.fsync(descriptor)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


_IN_MODIFY, _IN_MOVED_TO, _IN_CREATE = 0x2, 0x80, 0x100  # /usr/include/linux/inotify.h


def watch_growth(path: str) -> int | None:
    """Return a descriptor that is readable whenever a file has grown; None if the kernel has no such watch.

    For a directory it is readable whenever a file in it has grown, was created, or was moved into it.
    """
    import ctypes  # not at the top, because it would delay completion in a shell

    try:
        library = ctypes.CDLL(None, use_errno=True)
        descriptor: int = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, AttributeError):
        return None
    if descriptor < 0:
        return None
    if library.inotify_add_watch(descriptor, os.fsencode(path), _IN_MODIFY | _IN_MOVED_TO | _IN_CREATE) < 0:
        os.close(descriptor)
        return None
    return descriptor


JOB_MARK = "job."
"""Prefix of a signed token that admits ranks of one job; the job's name and an HMAC with the rank token follow."""

JOB_TOKENS_DIRECTORY = "job-tokens"
"""Directory of a home with a file for the token of each job."""


def job_token(rank_token: str, job: str) -> str:
    """Return a token for ranks of one job. The home's rank token signs and verifies it.

    The broker keeps no list of these tokens. So ``dbg-attach run`` makes one without changing a file of the broker.
    """
    return f"{JOB_MARK}{job}.{code_of(rank_token, f'dbg-broker job: {job}')}"


def code_of(token: str, what: str) -> str:
    """Return the HMAC of ``what`` under the token. ``what`` begins with the only purpose that the HMAC is valid for."""
    import hashlib  # loads OpenSSL, which completion in a shell does not need
    import hmac

    code = hmac.new(token.encode(), what.encode("utf-8", "surrogatepass"), hashlib.sha256)
    return base64.urlsafe_b64encode(code.digest()).decode().rstrip("=")


def user_name() -> str:
    """Return ``user@host``; the user's name comes from the environment, else from the system's accounts."""
    named = (os.environ.get(variable) for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"))
    user = next(filter(None, named), None) or _account()
    return f"{user}@{os.uname().nodename.partition('.')[0]}"


def _account() -> str:
    # getpass.getuser() does the same, but imports termios, which some builds of Python do not have.
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
