"""The job's process: its start, its end, and the signals that are meant for it.

It is in a session of its own and writes to a file, so that it outlives the terminal that it was started from.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

from dbg_dial.home import AUTOSTART
from dbg_wire.errors import DbgError, printable

NOT_EXECUTABLE = 126
NOT_FOUND = 127
"""Exit statuses of shells for a command that can't be run, and for one that isn't there."""

PASSED_ON = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""Signals that are meant for the job: Ctrl-C and Ctrl-\\ are typed at it, and a scheduler ends it by SIGTERM."""


class CantStart(DbgError):
    """The command can't be started; the exit status is the one that a shell would give."""

    def __init__(self, command: str, number: int) -> None:
        super().__init__(command, number)
        self.command = command
        self.number = number
        self.exit_status = NOT_FOUND if number == errno.ENOENT else NOT_EXECUTABLE

    def __str__(self) -> str:
        why = os.strerror(self.number)
        return f"the command '{printable(self.command)}' can't be started ({why}); look at its name"


class JobProcess:
    """A run's job from its start to its end, with a process group of its own."""

    def __init__(self) -> None:
        self.status: int | None = None
        """The exit status that a shell would give, None before the end."""
        self.began = 0.0
        """When it was started, in monotonic seconds."""
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = -1
        self._missed: list[int] = []

    def start(self, command: Sequence[str], environ: Mapping[str, str], output: int) -> None:
        """Start a command in a session of its own, its output appended to ``output``. Raise CantStart.

        The ranks of the job know by ``DBG_AUTOSTART`` who has started them. Signals that come meanwhile are passed on.
        """
        self.began = time.monotonic()
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**environ, AUTOSTART: str(os.getpid())},
                start_new_session=True,
            )
        except OSError as error:
            raise CantStart(command[0], error.errno or errno.ENOEXEC) from None
        self._ended = os.pidfd_open(self._process.pid)
        self.signal(*self._missed)

    @contextlib.contextmanager
    def signals_passed_on(self) -> Iterator[None]:
        """Have the job get the signals that are meant for it, while the block runs."""
        former = self.catch_signals()
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def catch_signals(self) -> dict[signal.Signals, Any]:
        """Have the job get the signals that are meant for it, and return what has handled them before."""
        return {number: signal.signal(number, self._pass_on) for number in PASSED_ON}

    def _pass_on(self, number: int, _: FrameType | None) -> None:
        if self._process is None:
            # The job may run already, and not be known yet.
            self._missed.append(number)
        else:
            self.signal(number)

    def fileno(self) -> int:
        """Return a descriptor that is readable once the job has ended; to be called after the start."""
        return self._ended

    def signal(self, *numbers: int) -> None:
        """Send signals to its process group, unless it has ended."""
        for number in numbers:
            if self._process is not None and self.status is None:
                with contextlib.suppress(OSError):
                    os.killpg(self._process.pid, number)

    def wait(self) -> int:
        """Return the status that a shell would give, once the job has ended."""
        if self.status is None and self._process is not None:
            status = self._process.wait()
            os.close(self._ended)
            # A shell adds 128 to the number of the signal that has ended a program.
            self.status = 128 - status if status < 0 else status
        return self.status or 0
