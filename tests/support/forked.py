"""Our commands as forks of one process that has imported them: processes of their own, which start at once.

A command that does more than that before it runs (in a shell, by a launcher, on another host, with another interpreter
or another environment for it) starts as it stands there.
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

from tests.support.starting.script import PLACEHOLDER, may_become_script

HERE = Path(__file__).parent

STARTS = {
    (str(Path(sys.executable).with_name("dbg-attach")),): "dbg-attach",
    (str(Path(sys.executable).with_name("dbg-broker")),): "dbg-broker",
    (sys.executable, "-m", "dbg_client"): "dbg-attach",
    (sys.executable, "-m", "dbg_broker"): "dbg-broker",
    (sys.executable, "-m", "tests.full.attacks.attacker"): "attack",
    (sys.executable, "-m", "tests.support.torch_job"): "torch-job",
}
"""The first words of command lines, and the command that they start."""

NOT_FORKED = frozenset({"run"})
"""Verbs of dbg-broker that start it anew, and whose processes are told by their command lines."""

DECIDES_THE_START = ("DBG_AUTOSTART", "LANG", "LC_", "LD_", "PYTHON")
"""Prefixes of variables that an interpreter, or what it runs first, looks at while it starts."""

SERVER_FOR_EACH = frozenset({"PYTHONWARNINGS"})
"""Those of the variables for which another value is so usual that a fork server with it is worth its start."""


class Forked:
    """One command that was forked; its process number stays taken until it is reaped."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid = pid
        self._server = server
        self._reaped: int | None = None
        """The exit status once the process number may be another's."""

    def status(self) -> int:
        """Return the exit status, or the negated number of the signal; block until the command has ended."""
        return self._server.ask({"status": self.pid}) if self._reaped is None else self._reaped

    def reap(self) -> int:
        """Release the process number and return the status; block until the command has ended."""
        if self._reaped is None:
            status = self.status()
            self._server.ask({"reap": self.pid})
            self._reaped = status
        return self._reaped

    def kill(self) -> None:
        """End the command at once, unless it has ended."""
        if self._reaped is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float) -> int:
        """Wait until the command has ended, and reap it; raise :class:`subprocess.TimeoutExpired` if it goes on."""
        if self._reaped is None and not self._ends_within(timeout):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return self.reap()

    def _ends_within(self, timeout: float) -> bool:
        handle = os.pidfd_open(self.pid)
        # poll, because select takes no descriptor above 1023.
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        try:
            return bool(poll.poll(timeout * 1000))
        finally:
            os.close(handle)


class ForkServer:
    """The process that forks, and our end of the socket to it."""

    def __init__(self, env: Mapping[str, str], kind: str) -> None:
        self._turn = threading.Lock()
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            script = str(HERE / "fork_server.py")
            if kind == "scripts":
                script = PLACEHOLDER
                path = [str(HERE / "starting"), *filter(None, [env.get("PYTHONPATH")])]
                env = {**env, "PYTHONPATH": os.pathsep.join(path)}
            # It ends at the end of its socket: with these tests, however they end.
            self._process = subprocess.Popen(
                [sys.executable, script, str(theirs.fileno()), kind],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=env,
                start_new_session=True,
            )

    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *handles: int,
        cwd: Path | None = None,
        in_terminal: bool = False,
    ) -> Forked:
        """Start a command with two outputs and nothing on its stdin; or in a terminal, for which it also gets a socket.

        The process in a terminal is its holder.
        """
        request = {"argv": [*argv], "env": dict(env), "cwd": str(cwd or Path.cwd()), "terminal": in_terminal}
        return Forked(self, self.ask(request, handles))

    def ask(self, request: Mapping[str, object], handles: Sequence[int] = ()) -> int:
        """Return the answer to one request."""
        with self._turn:
            socket.send_fds(self._requests, [json.dumps(request).encode()], handles)
            return int(self._requests.recv(32))

    def end(self) -> None:
        """End the process."""
        self._requests.close()
        self._process.wait()


_servers: dict[tuple[frozenset[tuple[str, str]], str], ForkServer] = {}
_starts = threading.Lock()
"""Held while a server starts: two threads of a test that run their first commands at once share one."""


def fork_server(env: Mapping[str, str], argv: Sequence[str]) -> ForkServer:
    """Return the server for a command whose interpreter started with this environment; it starts at the first call."""
    kind = "torch" if argv[0] == "torch-job" else "scripts" if argv[0].endswith(".py") else "commands"
    key = frozenset(deciding(env).items()), kind
    with _starts:
        if key not in _servers:
            # The rest of the variables is of one test, which would find and end the server by one of them.
            others = {name: value for name, value in os.environ.items() if not name.startswith(DECIDES_THE_START)}
            _servers[key] = ForkServer(others | deciding(env), kind)
        return _servers[key]


def end_fork_servers() -> None:
    """End the fork servers that run."""
    while _servers:
        _servers.popitem()[1].end()


def forkable(command: Sequence[str], env: Mapping[str, str]) -> list[str] | None:
    """Return what a command line gives our command as its ``argv``; None if the command has to start as it stands."""
    for start, name in STARTS.items():
        words = command[len(start) :]
        if tuple(command[: len(start)]) == start and not NOT_FORKED.intersection(words[:1]):
            return [name, *words] if starts_alike(env) else None
    return None


def forkable_script(command: Sequence[str], env: Mapping[str, str]) -> list[str] | None:
    """Return the script with its arguments that a command line runs; None if it has to start as it stands.

    Options of the interpreter before the script make it another start.
    """
    is_script = tuple(command[:1]) == (sys.executable,) and "".join(command[1:2]).endswith(".py")
    return [*command[1:]] if is_script and starts_alike(env) and may_become_script() else None


def as_it_stands(command: Sequence[str]) -> list[str]:
    """Return a command line that starts with an interpreter of its own, whose start or end is what is looked at."""
    return ["env", *command]


def starts_alike(env: Mapping[str, str]) -> bool:
    """Tell whether an interpreter starts with this environment as it does with that of the tests."""
    changed = {name for name, _ in deciding(env).items() ^ deciding(os.environ).items()}
    return changed <= SERVER_FOR_EACH


def deciding(env: Mapping[str, str]) -> dict[str, str]:
    """Return those of the variables that decide how an interpreter starts."""
    return {name: value for name, value in env.items() if name.startswith(DECIDES_THE_START)}


def run(
    command: Sequence[str], env: Mapping[str, str], timeout: float, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command until it ends, with nothing on its stdin, and return its status and outputs."""
    argv = forkable(command, env)
    if argv is None:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            env=env,
            timeout=timeout,
            cwd=cwd,
        )
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        forked = fork_server(env, argv).start(argv, env, stdout.fileno(), stderr.fileno(), cwd=cwd)
        try:
            status = forked.wait(timeout)
        except BaseException:
            forked.kill()
            forked.reap()
            raise
        return subprocess.CompletedProcess(command, status, text_of(stdout), text_of(stderr))


def text_of(file: IO[bytes]) -> str:
    """Return the content of a file with the line ends of Python."""
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n").replace("\r", "\n")
