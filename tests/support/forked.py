"""Our commands as forks of one process that has imported them: processes of their own, which start at once.

Terminals, and ranks, start as a user's do, with an interpreter of their own.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

DECIDES_THE_START = ("DBG_AUTOSTART", "LANG", "LC_", "LD_", "PYTHON")
"""Prefixes of variables that an interpreter, or what it runs first, looks at while it starts."""


class Forked:
    """One command that was forked; its process number stays taken until ``reap``."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid = pid
        self._server = server

    def status(self) -> int:
        """Return the exit status, or the negated number of the signal; block until the command has ended."""
        return self._server.ask({"status": self.pid})

    def reap(self) -> None:
        """Release the process number; block until the command has ended."""
        self._server.ask({"reap": self.pid})


class ForkServer:
    """The process that forks, and our end of the socket to it."""

    def __init__(self) -> None:
        self.environ = dict(os.environ)
        self._turn = threading.Lock()
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # It ends at the end of its socket: with these tests, however they end.
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("fork_server.py")), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def can_start(self, env: Mapping[str, str]) -> bool:
        """Tell whether a command with this environment would start as it does here."""
        return deciding(env) == deciding(self.environ)

    def start(self, argv: Sequence[str], env: Mapping[str, str], stdout: int, stderr: int) -> Forked:
        """Start a command with its two outputs, and with nothing on its stdin."""
        request = {"argv": [*argv], "env": dict(env), "cwd": str(Path.cwd())}
        return Forked(self, self.ask(request, (stdout, stderr)))

    def ask(self, request: Mapping[str, object], handles: Sequence[int] = ()) -> int:
        """Return the answer to one request."""
        with self._turn:
            socket.send_fds(self._requests, [json.dumps(request).encode()], handles)
            return int(self._requests.recv(32))

    def end(self) -> None:
        """End the process."""
        self._requests.close()
        self._process.wait()


_server: ForkServer | None = None


def fork_server() -> ForkServer:
    """Return the one fork server of these tests; it starts at the first call."""
    global _server
    if _server is None:
        _server = ForkServer()
    return _server


def end_fork_server() -> None:
    """End the fork server if it runs."""
    global _server
    if _server is not None:
        _server.end()
        _server = None


def deciding(env: Mapping[str, str]) -> dict[str, str]:
    """Return those of the variables that decide how an interpreter starts."""
    return {name: value for name, value in env.items() if name.startswith(DECIDES_THE_START)}


def run_forked(argv: Sequence[str], env: Mapping[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a command until it ends, as :func:`subprocess.run` does; its name is ``argv[0]``."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        command = fork_server().start(argv, env, stdout.fileno(), stderr.fileno())
        try:
            wait_for_end(command.pid, argv, timeout)
            return subprocess.CompletedProcess(argv, command.status(), text_of(stdout), text_of(stderr))
        finally:
            command.reap()


def wait_for_end(pid: int, argv: Sequence[str], timeout: float) -> None:
    """Wait for the end of a process; kill it after ``timeout`` seconds, and in any case when this is left early."""
    handle = os.pidfd_open(pid)
    try:
        if not select.select([handle], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(argv, timeout)
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        os.close(handle)


def text_of(file: IO[bytes]) -> str:
    """Return the content of a file with the line ends of Python."""
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n").replace("\r", "\n")
