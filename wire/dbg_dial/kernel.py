"""Who dials: the name of this kernel, by which a broker knows whether it sees a rank's process, and of the user."""

from __future__ import annotations

import os


def kernel_name(proc: str = "/proc") -> str | None:
    """Return a name for this boot and process-id namespace, or None if that can't be read.

    A process id from another process is valid here only if both processes have the same kernel name.
    """
    try:
        with open(f"{proc}/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123 - no pathlib in a rank
            boot = file.read().strip()
        return f"{boot}/{os.stat(f'{proc}/self/ns/pid').st_ino}"  # noqa: PTH116
    except (OSError, UnicodeDecodeError):
        return None


def user_name() -> str:
    """Return ``user@host``; the user's name comes from the environment, else from the system's accounts."""
    named = (os.environ.get(variable) for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"))
    user = next(filter(None, named), None) or _account()
    return f"{user}@{os.uname().nodename.partition('.')[0]}"


def _account() -> str:
    # getpass.getuser() does the same, and imports termios, which a face without a terminal may lack. A rank, which asks
    # for the kernel alone, loads no database of users.
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
