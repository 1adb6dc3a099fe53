"""One process that has imported our commands, and forks for each run of them: a fresh interpreter imports for 0.25 s.

Run by :mod:`tests.support.forked`, with the number of a socket as its argument. Each request on the socket is one JSON
object; an answer is one number.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

MAINS = {"dbg-attach": "dbg_client.cli", "dbg-broker": "dbg_broker.cli"}
"""The module whose ``main`` is the command."""

LATE = ("dbg_client.actions.actions", "dbg_broker.verbs.serve")
"""Modules that the commands import once they have read their command line."""

PR_SET_PDEATHSIG = 1
"""The request to the kernel for a signal at the end of this process, as in its ``linux/prctl.h``."""

LARGEST = 1 << 18
"""Bytes of the largest request: an environment and a command line."""


def main(number: int) -> int:
    """Answer requests until the socket is closed; return the exit status of this process, or of a forked command."""
    # This script's folder would be searched first, and it has files that are named like modules of others.
    del sys.path[0]
    for name in (*MAINS.values(), *LATE):
        import_module(name)
    # A forked command need not look at what was here before it.
    gc.freeze()
    with socket.socket(fileno=number) as requests:
        while True:
            text, handles, _, _ = socket.recv_fds(requests, LARGEST, 2)
            if not text:
                return 0
            requests.send(str(answer(json.loads(text), handles, requests)).encode())


def answer(request: dict[str, Any], handles: Sequence[int], requests: socket.socket) -> int:
    """Do what was asked for: return the process number of a started command, or the exit status of an ended one."""
    if "status" in request:
        # The zombie stays, and with it the process number.
        ended = os.waitid(os.P_PID, request["status"], os.WEXITED | os.WNOWAIT)
        assert ended is not None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    if "reap" in request:
        return os.waitpid(request["reap"], 0)[0]
    pid = os.fork()
    if pid == 0:
        requests.close()
        carry_out(request, handles)
    for handle in handles:
        os.close(handle)
    return pid


def carry_out(request: dict[str, Any], handles: Sequence[int]) -> NoReturn:
    """Be the command, with its own output, directory, environment and command line."""
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for wanted, handle in enumerate(handles, 1):
        os.dup2(handle, wanted)
        os.close(handle)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = request["argv"]
    sys.exit(import_module(MAINS[sys.argv[0]]).main())


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
