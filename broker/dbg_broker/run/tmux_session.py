"""``run --tmux`` outside of tmux: the same run, in a new session that this terminal shows."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dbg_broker.run import tmux_pane
from dbg_wire.errors import BadInput, DbgError, printable

START_SECONDS = 30.0
"""Seconds for the pane to ask what to run: an interpreter's start."""

_LOADER_PATHS = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables without which an interpreter from an environment module does not even start."""


class NoSession(DbgError):
    """Say that tmux has made no session, and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"tmux opens no session ({printable(self.reason)}); leave --tmux out, or type it inside of tmux"


def run_in_session(
    command: Sequence[str], environ: Mapping[str, str], directory: str, say: Callable[[str], None]
) -> int:
    """Run a command in a new session of tmux, show that, and return the command's status, or 0 while it goes on.

    What is told to the pane is on no command line. Raise NoSession and BadInput.
    """
    if not (os.isatty(0) and os.isatty(1)):
        raise BadInput("--tmux needs a terminal to show its session in", "type it in a terminal, or leave it out")
    with tempfile.TemporaryDirectory(prefix="dbg-") as folder, socket.socket(socket.AF_UNIX) as listener:
        path = str(Path(folder) / "s")
        listener.bind(path)
        listener.listen(1)
        listener.settimeout(START_SECONDS)
        session = _open_session(path, environ)
        try:
            connection, _ = listener.accept()
        except (OSError, KeyboardInterrupt):
            _tmux(["kill-session", "-t", session], environ)
            raise NoSession(f"its pane did not start within {START_SECONDS:g} s") from None
        with connection:
            handed = {"environ": dict(environ), "directory": directory, "command": list(command)}
            connection.sendall(json.dumps(handed).encode() + b"\n")
            subprocess.run(["tmux", "attach-session", "-t", session], env=environ, check=False)
            status = _status(connection)
    if status is None:
        say(f"the run goes on in tmux: `tmux attach-session -t '{session}'` comes back")
    return status or 0


def _open_session(path: str, environ: Mapping[str, str]) -> str:
    columns, rows = os.get_terminal_size(1)
    loader = [f"{name}={environ[name]}" for name in _LOADER_PATHS if environ.get(name)]
    python = [*(["env", *loader] if loader else []), sys.executable, "-I", "-S", tmux_pane.__file__, path]
    size = ["-x", str(columns or 80), "-y", str(rows or 24)]
    return _tmux(
        ["new-session", "-d", "-P", "-F", "#{session_id}", "-n", "dbg-broker", *size, *python], environ
    ).strip()


def _tmux(words: Sequence[str], environ: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            ["tmux", *words], env=environ, capture_output=True, text=True, timeout=START_SECONDS, check=False
        )
    except FileNotFoundError:
        raise NoSession("tmux is not on PATH") from None
    except (OSError, subprocess.SubprocessError) as error:
        raise NoSession(type(error).__name__) from None
    if done.returncode:
        raise NoSession(done.stderr.strip() or f"status {done.returncode}")
    return done.stdout


def _status(connection: socket.socket) -> int | None:
    """Return the status that the pane has told, None if the command still runs."""
    if not select.select([connection], [], [], 0)[0]:
        return None
    with contextlib.suppress(OSError, ValueError):
        return int(connection.recv(64))
    # The pane was ended by force, and the run with it.
    return 1
