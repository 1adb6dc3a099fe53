"""The socket through which a broker gives terminals of its own host a driver's token out of its memory.

It lies in a directory of this host that only its user can enter. Ranks on other hosts share the user's home, and not
that directory. Each side looks who is at the other end.
"""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import struct
from collections.abc import Mapping
from contextlib import suppress

NAME_DIGITS = 16
"""Digits of a socket's name, made from its home: 64 bits, so that two homes of a user share none."""

ANSWER_SECONDS = 3.0
"""Seconds for the broker's answer: it has it at once, and a busy one needs a few tenths."""

MAX_ANSWER_BYTES = 16 * 1024
"""Bytes of an answer, which are an address, fingerprints and two tokens."""

DIAL_SECONDS = 60.0
"""Seconds for which a token opens connections if nobody asks for more: time to dial, and to be asked for an engine."""

_CREDENTIALS = struct.Struct("3i")


def socket_directories(environ: Mapping[str, str], uid: int) -> tuple[str, ...]:
    """Return the directories in which a broker's socket may be, the best first; none of them is shared with others."""
    own = environ.get("XDG_RUNTIME_DIR", "")
    runtime = [own, f"/run/user/{uid}"] if os.path.isabs(own) else [f"/run/user/{uid}"]  # noqa: PTH117 - text alone
    return (*dict.fromkeys(f"{path}/dbg-broker" for path in runtime), f"/tmp/dbg-broker-{uid}")  # noqa: S108


def socket_name(home: str) -> str:
    """Return the name of the socket of a home, which has the same one by whatever way it is reached."""
    return f"{hashlib.sha256(os.path.realpath(home).encode()).hexdigest()[:NAME_DIGITS]}.sock"


def is_private_directory(path: str, uid: int) -> bool:
    """Tell whether a directory is one that nobody but this user can enter."""
    with suppress(OSError):
        found = os.lstat(path)
        return stat.S_ISDIR(found.st_mode) and found.st_uid == uid and not found.st_mode & 0o077
    return False


def peer_of(connected: socket.socket) -> tuple[int, int]:
    """Return pid and uid of the process at the other end of a Unix socket. Raise OSError."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        raise OSError("the kernel does not tell who is at the other end")
    pid, uid, _ = _CREDENTIALS.unpack(connected.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return pid, uid


def ask_memory(home: str, environ: Mapping[str, str], seconds: float = DIAL_SECONDS) -> str | None:
    """Return what the broker of a home tells a terminal of its host, in the form of broker.json; None without one.

    The token in it opens connections for ``seconds``. Block for ANSWER_SECONDS at most.
    """
    uid = os.getuid()
    for directory in socket_directories(environ, uid):
        if is_private_directory(directory, uid):
            with suppress(OSError, UnicodeDecodeError):
                answer = _ask(f"{directory}/{socket_name(home)}", uid, seconds)
                if answer:
                    return answer
    return None


def _ask(path: str, uid: int, seconds: float) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(ANSWER_SECONDS)
        asking.connect(path)
        if peer_of(asking)[1] != uid:
            return ""
        asking.sendall(f"{seconds:.0f}\n".encode())
        answer = b""
        while len(answer) < MAX_ANSWER_BYTES and (data := asking.recv(MAX_ANSWER_BYTES)):
            answer += data
        return answer.decode("utf-8")
