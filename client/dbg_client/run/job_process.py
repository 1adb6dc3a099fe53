"""The job's process: its start, its end, and the signals for it.

It has its own session and writes to a file, so that it survives the terminal that started it.
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
"""Exit statuses of shells for a command that can't be executed, and for one that is not found."""

PASSED_ON = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""Signals for the job: Ctrl-C and Ctrl-\\ of the user are meant for it, and a scheduler ends it by SIGTERM."""


class CantStart(DbgError):
    """Raised when the command can't be started; its exit status is the one that a shell would return."""

    def __init__(self, command: str, number: int) -> None:
        super().__init__(command, number)
        self.command = command
        self.number = number
        self.exit_status = NOT_FOUND if number == errno.ENOENT else NOT_EXECUTABLE

    def __str__(self) -> str:
        why = os.strerror(self.number)
        return f"the command '{printable(self.command)}' can't be started ({why}); check its name"


class JobProcess:
    """A run's job from its start to its end, with its own process group."""

    def __init__(self) -> None:
        self.status: int | None = None
        """Exit status as a shell would return it, None before the end."""
        self.began = 0.0
        """Time of the job's start, in monotonic seconds."""
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = -1
        self._missed: list[int] = []

    def start(self, command: Sequence[str], environ: Mapping[str, str], output: int) -> None:
        """Start a command in a new session, its output appended to ``output``. Raises CantStart.

        ``DBG_AUTOSTART`` shows the job's ranks which process has started them. Signals that arrive during the start are
        passed on afterwards.
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
        """Pass the signals in PASSED_ON to the job while the block runs."""
        former = self.catch_signals()
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def catch_signals(self) -> dict[signal.Signals, Any]:
        """Pass the signals in PASSED_ON to the job, and return their previous handlers."""
        return {number: signal.signal(number, self._pass_on) for number in PASSED_ON}

    def _pass_on(self, number: int, _: FrameType | None) -> None:
        if self._process is None:
            # The job may already be running, but its pid is not known yet.
            self._missed.append(number)
        else:
            self.signal(number)

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the job has ended; call this after the start."""
        return self._ended

    def signal(self, *numbers: int) -> None:
        """Send signals to the job's process group, unless the job has ended."""
        for number in numbers:
            if self._process is not None and self.status is None:
                with contextlib.suppress(OSError):
                    os.killpg(self._process.pid, number)

    def wait(self) -> int:
        """Wait for the job's end, and return the status that a shell would return."""
        if self.status is None and self._process is not None:
            status = self._process.wait()
            os.close(self._ended)
            # A shell returns 128 plus the number of the signal that has ended a program.
            self.status = 128 - status if status < 0 else status
        return self.status or 0
