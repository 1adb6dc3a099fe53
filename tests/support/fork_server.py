"""One process that has imported our commands, and forks for each run of them: a fresh interpreter imports for 0.25 s.

Run by :mod:`tests.support.forked`; its arguments are the number of a socket, and what it forks. Each request on the
socket is one JSON object; an answer is one number.
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
from pathlib import Path
from typing import Any, NoReturn

# Beside this script are files that are named like modules of others.
sys.path[0] = str(Path(__file__).parents[2])
from tests.support.holder import hold, wait_without_reaping  # noqa: E402 - found through the line above

del sys.path[0]

MAINS = {
    "dbg-attach": "dbg_client.cli.main",
    "dbg-broker": "dbg_broker.cli.main",
    "attack": "tests.attacks.attacker",
    "torch-job": "tests.support.torch_job",
}
"""The module whose ``main`` is the command."""

IMPORTS = {
    "commands": (
        "dbg_client.cli.main",
        "dbg_broker.cli.main",
        # They import these once they have read their command line.
        "dbg_client.actions.from_shell",
        "dbg_client.terminal.attach",
        "dbg_broker.verbs.serve",
    ),
    "torch": ("tests.support.torch_job",),
}
"""What each kind of server imports before it forks: ranks have not imported our commands."""

PR_SET_PDEATHSIG = 1
"""The request to the kernel for a signal at the end of this process's parent, as in ``linux/prctl.h``."""

LARGEST = 1 << 18
"""Bytes of the largest request: an environment and a command line."""


def main(number: int, kind: str) -> int:
    """Answer requests until the socket is closed."""
    for name in IMPORTS[kind]:
        import_module(name)
    # A collection in a forked command need not look at what was here before it.
    gc.freeze()
    with socket.socket(fileno=number) as requests:
        while True:
            text, handles, _, _ = socket.recv_fds(requests, LARGEST, 2)
            if not text:
                return 0
            requests.send(str(answer(json.loads(text), handles, requests)).encode())


def answer(request: dict[str, Any], handles: Sequence[int], requests: socket.socket) -> int:
    """Do what was asked for: return the process number of what was started, or the exit status of what has ended."""
    if "status" in request:
        return wait_without_reaping(request["status"])
    if "reap" in request:
        return os.waitpid(request["reap"], 0)[0]
    import_module(MAINS[request["argv"][0]])
    pid = os.fork()
    if pid == 0:
        requests.close()
        os.setsid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        start = hold_terminal if request["terminal"] else write_to
        start(request, *handles)
    for handle in handles:
        os.close(handle)
    return pid


def write_to(request: dict[str, Any], stdout: int, stderr: int) -> NoReturn:
    """Be the command without a terminal."""
    redirect(stdout, 1)
    redirect(stderr, 2)
    open_streams()
    carry_out(request)


def hold_terminal(request: dict[str, Any], terminal: int, number: int) -> NoReturn:
    """Run the command in a terminal, and hold that."""
    for handle in (0, 1):
        os.dup2(terminal, handle)
    redirect(terminal, 2)
    control = socket.socket(fileno=number)

    def become(open_until_here: int) -> None:
        control.close()
        os.close(open_until_here)
        open_streams()
        carry_out(request)

    hold(control, become)
    os._exit(0)


def redirect(handle: int, wanted: int) -> None:
    """Give an open file another number."""
    os.dup2(handle, wanted)
    os.close(handle)


def open_streams() -> None:
    """Open the standard streams as an interpreter does at its start, since they are not the files of the server.

    In a terminal stdout writes line by line, and stderr does so everywhere.
    """
    for name, mode, buffering in (("stdin", "r", -1), ("stdout", "w", -1), ("stderr", "w", 1)):
        former = getattr(sys, name)
        coding = {"encoding": former.encoding, "errors": former.errors}
        stream = open(former.fileno(), mode, buffering, **coding, closefd=False)  # noqa: SIM115 - they stay open
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def carry_out(request: dict[str, Any]) -> NoReturn:
    """Be the command, in its own directory and environment, with its own command line."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = request["argv"]
    sys.exit(import_module(MAINS[sys.argv[0]]).main())


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2]))
