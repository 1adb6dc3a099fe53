"""The name of the user who dials, as other users see it."""

from __future__ import annotations

import os
import pwd
import socket


def user_name() -> str:
    """Return ``user@host``; the user's name comes from the environment, else from the system's accounts."""
    named = (os.environ.get(variable) for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"))
    user = next(filter(None, named), None) or _account()
    return f"{user}@{socket.gethostname().partition('.')[0]}"


def _account() -> str:
    # getpass.getuser() does the same, and imports termios, which a face without a terminal may lack.
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
