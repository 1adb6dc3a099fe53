"""The terminal of a run: ``dbg-attach`` in a process of its own, and the socket that joins the two."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Mapping

from dbg_broker.run.own_programs import own_command, own_environment
from dbg_wire.errors import PeerError
from dbg_wire.finding.environment import HOME
from dbg_wire.messages.run_terminal import JOB_IS_OVER, Task, Told, decode_told, encode_line

MAX_LINE = 1024 * 1024
"""Bytes of one line from the terminal; a hundred breakpoints with long conditions take less."""


class TerminalProcess:
    """The process that owns the screen; it ends with its window, or when its user wants."""

    def __init__(self, task: Task, environ: Mapping[str, str], home: str) -> None:
        self._socket, theirs = socket.socketpair()
        # The terminal inherits this: Ctrl-C is for the job, and the terminal needs a while to set its own handler.
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
        # If the terminal has ended already, its end is noted as usual.
        with contextlib.suppress(OSError):
            self._socket.sendall(encode_line(task))
        self._rest = b""
        self.told = Told()
        self.has_more = True
        """Whether it may still say something."""

    def fileno(self) -> int:
        """Return the descriptor at which to wait for lines of the terminal."""
        return self._socket.fileno()

    def read(self) -> bool:
        """Take what the terminal has sent; return False once no more will come. Blocks until bytes come."""
        try:
            data = self._socket.recv(65536)
        except OSError:
            data = b""
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[:MAX_LINE]
        for line in lines:
            # A wrong line is a mistake of dbg-attach; the job matters more than what `--again` would know.
            with contextlib.suppress(PeerError):
                self.told = decode_told(line)
        self.has_more = bool(data)
        return self.has_more

    def job_is_over(self) -> None:
        """Tell the terminal to show what is left of the output, and to end; a second call does nothing."""
        with contextlib.suppress(OSError):
            self._socket.sendall(JOB_IS_OVER)
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Take all that the terminal has sent, once its process has ended, and close the socket."""
        while self.read():
            pass
        self._socket.close()


def is_attachable() -> bool:
    """Tell whether both stdin and stdout are a terminal."""
    return os.isatty(0) and os.isatty(1)
