"""The terminal of a run: ``dbg-attach`` in a process of its own, and the socket that joins the two."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Mapping

from dbg_wire.environment import HOME
from dbg_wire.errors import PeerError
from dbg_wire.run_terminal import JOB_IS_OVER, Task, Told, decode_told, encode_line

from .own_programs import own_command, own_environment

MAX_LINE = 1024 * 1024
"""Bytes of one line that the terminal says; a hundred breakpoints with long conditions are below."""


class TerminalProcess:
    """Be the process that owns the screen, until it ends; it outlives neither its window nor its user's wish."""

    def __init__(self, task: Task, environ: Mapping[str, str], home: str) -> None:
        self._socket, theirs = socket.socketpair()
        # Inherited: Ctrl-C is for the job, and there is a while before the terminal can say so itself.
        former = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with theirs:
                self.process = subprocess.Popen(
                    own_command("dbg_client.cli", ["--run", str(theirs.fileno())]),
                    env={**own_environment(environ), HOME: home},
                    pass_fds=(theirs.fileno(),),
                )
        finally:
            signal.signal(signal.SIGINT, former)
        # If it has ended already, that is noted like any other end of it.
        with contextlib.suppress(OSError):
            self._socket.sendall(encode_line(task))
        self._rest = b""
        self.told = Told()
        self.has_more = True
        """Whether it may still say something."""

    def fileno(self) -> int:
        """Return what to wait at for something said."""
        return self._socket.fileno()

    def read(self) -> bool:
        """Take what was said; return False once no more will come. Blocks until something is."""
        try:
            data = self._socket.recv(65536)
        except OSError:
            data = b""
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[:MAX_LINE]
        for line in lines:
            # Of our own making; the job matters more than what the next one would have been told.
            with contextlib.suppress(PeerError):
                self.told = decode_told(line)
        self.has_more = bool(data)
        return self.has_more

    def job_is_over(self) -> None:
        """Tell it to show what is left of the output, and to end; again does nothing."""
        with contextlib.suppress(OSError):
            self._socket.sendall(JOB_IS_OVER)
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Take all that it has said, once its process has ended, and forget it."""
        while self.read():
            pass
        self._socket.close()


def is_attachable() -> bool:
    """Tell whether both ends of this process are a terminal."""
    return os.isatty(0) and os.isatty(1)
