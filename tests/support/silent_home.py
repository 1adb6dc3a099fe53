"""A home whose file server answers nothing: `silent_home.py HOME [COMMAND…]`.

It is silent for one namespace of mounts. The process becomes the command, and a child of it is the file server, which
writes `touched` to stderr at the first request. Without a command the process is the file server itself. It needs none
of our other files.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1
INIT = 26
"""The first request, which the kernel wants answered before it sends others: FUSE_INIT of linux/fuse.h."""

REQUEST = struct.Struct("=IIQ24x")
ANSWER = struct.Struct("=IiQ" + "IIIIHHII36x")


def silent(home: Path, command: Sequence[str]) -> list[str]:
    """Return a command line that runs ``command`` where a home is silent."""
    return ["unshare", "--mount", sys.executable, __file__, str(home), *command]


def _mount(home: str) -> int:
    """Mount a file system at a home, and return the descriptor at which its requests come."""
    server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={server},rootmode=40700,user_id={os.getuid()},group_id={os.getgid()}"
    if ctypes.CDLL(None, use_errno=True).mount(b"silent", os.fsencode(home), b"fuse", 0, options.encode()):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), home)
    return server


def _serve(server: int) -> None:
    """Tell of the first request, and wait until this process is killed.

    The request is not read: who waits for one that was could be ended by nothing, which is worse than with a network.
    """
    _, operation, number = REQUEST.unpack_from(os.read(server, 1 << 20))
    assert operation == INIT
    os.write(server, ANSWER.pack(ANSWER.size, 0, number, 7, 31, 0, 0, 16, 12, 4096, 1))
    select.select([server], [], [])
    os.write(sys.stderr.fileno(), b"touched\n")
    while True:
        signal.pause()


if __name__ == "__main__":
    opened = _mount(sys.argv[1])
    if not sys.argv[2:]:
        os.write(sys.stdout.fileno(), b"silent\n")
        _serve(opened)
    parent = os.getpid()
    if os.fork():
        os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - there is no shell to keep away from
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == parent:
        _serve(opened)
