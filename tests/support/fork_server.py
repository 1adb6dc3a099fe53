"""One process that has imported what its kind of programs needs, and forks for each run of them: imports take 0.3 s.

Run by :mod:`tests.support.forked`; its arguments are the number of a socket, and what it forks. Each request on the
socket is one JSON object; an answer is one number. A server of scripts serves while its interpreter starts, in
:mod:`tests.support.starting`; each fork finishes that start, with another script.
"""

from __future__ import annotations

import atexit
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
from types import ModuleType
from typing import Any, NoReturn

# Beside this script are files that are named like modules of others.
sys.path[0] = str(Path(__file__).parents[2])
from tests.support.holder import hold, wait_without_reaping  # noqa: E402 - found through the line above
from tests.support.starting.script import become_script  # noqa: E402

del sys.path[0]

MAINS = {
    "dbg-attach": "dbg_client.cli.main",
    "dbg-broker": "dbg_broker.cli.main",
    "attack": "tests.full.attacks.attacker",
    "torch-job": "tests.support.torch_job",
}
"""The module whose ``main`` is the command."""

IMPORTS = {
    "commands": (
        "dbg_client.cli.main",
        "dbg_broker.cli.main",
        # They import these once they have read their command line.
        *("dbg_client.actions.from_shell", "dbg_client.actions.in_session", "dbg_client.core.config_file"),
        *("dbg_client.terminal.attach", "dbg_client.terminal.command_row", "dbg_client.terminal.line_display"),
        *("dbg_client.terminal.picker", "dbg_broker.verbs.serve", "concurrent.futures.thread", "encodings.idna"),
        *("cryptography.x509", "cryptography.hazmat.primitives.asymmetric.ec"),
    ),
    "torch": ("tests.support.torch_job",),
    # What a rank imports when it connects and when PuDB opens in it, but for the agent, which a test may come before,
    # and for PuDB, which the agent imports in a way of its own.
    "scripts": (
        *(
            "argparse",
            "asyncio",
            "asyncio.unix_events",
            "bdb",
            "cmd",
            "code",
            "concurrent.futures.thread",
            "configparser",
        ),
        *(
            "ctypes",
            "dataclasses",
            "hmac",
            "html",
            "inspect",
            "json",
            "logging",
            "pdb",
            "pkgutil",
            "platform",
            "pprint",
        ),
        *("secrets", "shutil", "ssl", "subprocess", "tempfile", "traceback", "urllib.request", "zipfile"),
        *("msgspec", "msgspec.json", "websockets.asyncio.client", "websockets.asyncio.server"),
        *("pygments", "pygments.formatter", "pygments.lexers", "pygments.lexers.python", "pygments.token"),
        *("urwid", "urwid.display.raw", "wcwidth", "dbg_dial.dial", "dbg_wire.messages.from_broker"),
    ),
}
"""What each kind of server imports before it forks: ranks have not imported our commands."""

PR_SET_PDEATHSIG = 1
"""The request to the kernel for a signal at the end of this process's parent, as in ``linux/prctl.h``."""

MISSING = ("tornado", "trio", "twisted", "zmq")
"""Event loops that urwid imports where they are installed, which the agent keeps it from."""

KEPT_TO_THE_END = frozenset(
    {
        *(
            "__main__",
            "_frozen_importlib",
            "_frozen_importlib_external",
            "_io",
            "_warnings",
            "abc",
            "atexit",
            "builtins",
        ),
        *("codecs", "encodings", "importlib", "io", "linecache", "os", "posixpath", "signal", "site", "stat", "sys"),
        *("threading", "traceback", "warnings", "weakref"),
    }
)
"""Modules that an interpreter looks for while it ends."""

LARGEST = 1 << 18
"""Bytes of the largest request: an environment and a command line."""


def serve(number: int, kind: str) -> None:
    """Answer requests until the socket is closed, and end; return in the fork that is to be a script."""
    sys.modules.update(dict.fromkeys(MISSING))  # type: ignore[arg-type]  # None stands for a module that can't be imported
    for name in IMPORTS[kind]:
        import_module(name)
    for name in MISSING:
        del sys.modules[name]
    # A collection in a forked command need not look at what was here before it.
    gc.freeze()
    imported = dict(sys.modules)
    with socket.socket(fileno=number) as requests:
        while True:
            text, handles, _, _ = socket.recv_fds(requests, LARGEST, 2)
            if not text:
                os._exit(0)
            request = json.loads(text)
            pid = answer(request) if "argv" not in request else os.fork()
            if pid == 0 and "argv" in request:
                break
            requests.send(str(pid).encode())
            for handle in handles:
                os.close(handle)
    spare(imported)
    start(request, kind, handles)


def spare(imported: dict[str, ModuleType]) -> None:
    """Let the end of this fork free no module that the server has imported.

    To free them all costs 25 ms: the kernel copies each page of memory on which an object is counted down.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(imported))

    def forget() -> None:
        for name in imported.keys() - KEPT_TO_THE_END:
            sys.modules.pop(name, None)

    # Registered before all others, and so called after them.
    atexit.register(forget)


def answer(request: dict[str, int]) -> int:
    """Return the exit status of what has ended, or release its process number."""
    return wait_without_reaping(request["status"]) if "status" in request else os.waitpid(request["reap"], 0)[0]


def start(request: dict[str, Any], kind: str, handles: Sequence[int]) -> None:
    """Be the command, or get ready to be the script."""
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if request["terminal"]:
        hold_terminal(request, *handles)
    redirect(handles[0], 1)
    redirect(handles[1], 2)
    if kind == "scripts":
        # The standard streams are as they would be: the server's are no terminal, either.
        put_on(request)
        become_script(request["env"])
        return
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


def put_on(request: dict[str, Any]) -> None:
    """Have the directory, the environment and the command line of the request."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = request["argv"]


def carry_out(request: dict[str, Any]) -> NoReturn:
    """Be the command."""
    put_on(request)
    sys.exit(import_module(MAINS[sys.argv[0]]).main())


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])
