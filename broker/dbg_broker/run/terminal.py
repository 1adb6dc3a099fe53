"""The terminal of a run: ``dbg-attach`` in a process of its own, the socket that joins the two, the screen's settings.

Signals come as a descriptor to wait at beside that socket.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping
from types import FrameType

from dbg_broker.run.environment import own_command, own_environment
from dbg_wire.errors import PeerError
from dbg_wire.finding.environment import HOME
from dbg_wire.messages.run_terminal import JOB_IS_OVER, Task, Told, decode_told, encode_line

MAX_LINE = 1024 * 1024
"""Bytes of one line from the terminal; a hundred breakpoints with long conditions take less."""

_USUAL = b"\x18\x1b[?1000l\x1b[?1002l\x1b[?1006l\x1b[?2004l\x1b[?1049h\x1b[?1049l\x1b7\x1b[r\x1b8\x1b[0m\x1b[?25h\r\n"
"""No mouse reports, no bracketed paste, the main screen, no scroll region, no colours, a cursor.

The cursor stays where it is: it is saved before a sequence that moves it. Leaving the alternate screen moves it to
where the screen was last entered, so it is entered here first; a save with ``ESC 7`` does not count for that in tmux.
"""

SignalHandler = Callable[[int, FrameType | None], None]


class TerminalProcess:
    """The process that owns the screen; it ends with its window, or when its user wants."""

    def __init__(self, task: Task, environ: Mapping[str, str], home: str) -> None:
        self._socket, theirs = socket.socketpair()
        # The terminal inherits this: Ctrl-C is for the job, and the terminal needs a while to set its own handler.
        former = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with theirs:
                self.process = subprocess.Popen(
                    own_command("dbg_client.cli.main", ["--run", str(theirs.fileno())]),
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


class Screen:
    """The settings that the terminal has when this is made."""

    def __init__(self) -> None:
        self._settings: list[int | list[bytes | int]] | None = None
        if sys.stdin.isatty() and sys.stdout.isatty():
            with contextlib.suppress(OSError, termios.error):
                self._settings = termios.tcgetattr(sys.stdin.fileno())

    def restore(self) -> None:
        """Restore the settings; nothing happens if there is no terminal, or none any more."""
        if self._settings is None:
            return
        with contextlib.suppress(OSError, termios.error):
            os.write(sys.stdout.fileno(), _USUAL)
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSAFLUSH, self._settings)


class Wakeup:
    """Descriptor that is readable once a signal came, while the ``with`` block runs."""

    def __init__(self, handlers: Mapping[signal.Signals, SignalHandler]) -> None:
        self._handlers: dict[signal.Signals, SignalHandler] = {**handlers, signal.SIGCHLD: _end_the_wait}
        self._former: dict[signal.Signals, signal._HANDLER] = {}
        self._read_end, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        """Return the descriptor to wait at."""
        return self._read_end

    def drain(self) -> None:
        """Forget the signals that came."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read_end, 512):
                pass

    def __enter__(self) -> Wakeup:
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number, handler in self._handlers.items():
            # Under nohup SIGHUP is ignored, and stays so.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._former[number] = signal.signal(number, handler)
        # A child that ended before there was a handler has sent no signal, so the first wait ends at once.
        os.write(self._write_end, b"0")
        return self

    def __exit__(self, *_: object) -> None:
        for number, former in self._former.items():
            signal.signal(number, former)
        signal.set_wakeup_fd(-1)
        os.close(self._read_end)
        os.close(self._write_end)


def _end_the_wait(_number: int, _frame: FrameType | None) -> None:
    """Do nothing; without a handler a signal would not be noted at all."""
