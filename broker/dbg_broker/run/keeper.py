"""The job's process, and a small process that stays with it even if the terminal is closed.

The keeper is forked without an exec: it must be there before anything else, and all that it needs is loaded.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from dbg_broker.home.rendezvous import NO_LOCKS_HERE
from dbg_broker.run.job_terminal import JobTerminal, copy_until_end
from dbg_wire.errors import DbgError, printable
from dbg_wire.finding.environment import AUTOSTART

NOT_EXECUTABLE = 126
NOT_FOUND = 127
"""Exit statuses of shells for a command that can't be run, and for one that isn't there."""

SILENT_SECONDS = 7 * 24 * 3600.0
"""Seconds without a write after which an output counts as an ended job's on a file system without locks."""


class CantStart(DbgError):
    """The command can't be started; the exit status is the one that a shell would give."""

    def __init__(self, command: str, number: int) -> None:
        super().__init__(command, number)
        self.command = command
        self.number = number
        self.exit_status = NOT_FOUND if number == errno.ENOENT else NOT_EXECUTABLE

    def __str__(self) -> str:
        why = os.strerror(self.number) if self.number else "its keeper was ended"
        return f"the command '{printable(self.command)}' can't be started ({why}); look at its name"


@dataclass(frozen=True, slots=True)
class Job:
    """The processes of a job that runs: ``keeper`` is the run's child, and ends with the status of ``process``."""

    keeper: int
    process: int

    def signal(self, number: int) -> None:
        """Send a signal to the job's process group; nothing happens if no process is left there."""
        with contextlib.suppress(OSError):
            os.killpg(self.process, number)


def start(command: Sequence[str], environ: Mapping[str, str], output: int, terminal: JobTerminal | None = None) -> Job:
    """Start a command in a session of its own, its output appended to ``output``, and a keeper that waits for it.

    With a ``terminal`` the command writes to that, and the keeper copies it. The keeper inherits all our descriptors:
    what is locked or held here is so until the job ends.
    Raise CantStart.
    """
    read_end, write_end = os.pipe()
    keeper = os.fork()
    if keeper == 0:
        os.close(read_end)
        _keep(command, environ, output, write_end, terminal)
    os.close(write_end)
    with os.fdopen(read_end, encoding="ascii") as answers:
        answer = answers.read()
    if answer.startswith("started "):
        return Job(keeper, int(answer.split()[1]))
    os.waitpid(keeper, 0)
    number = answer.partition(" ")[2]
    raise CantStart(command[0], int(number) if number.isdecimal() else 0)


def _keep(
    command: Sequence[str], environ: Mapping[str, str], output: int, answers: int, terminal: JobTerminal | None
) -> NoReturn:
    """Be the keeper; whatever happens here must not run on in the code of whoever forked it."""
    status = 1
    try:
        # Neither the terminal's end nor its Ctrl-C is to reach the keeper.
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD):
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        process = _start_process(command, environ, output if terminal is None else terminal.slave, answers)
        if process is not None:
            if terminal is not None:
                os.close(terminal.slave)
                copy_until_end(terminal.master, output, process)
            status = shell_status(process.wait())
    finally:
        os._exit(status)


def _start_process(
    command: Sequence[str], environ: Mapping[str, str], output: int, answers: int
) -> subprocess.Popen[bytes] | None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (sys.__stdin__, sys.__stdout__, sys.__stderr__):
        if descriptor is not None:
            with contextlib.suppress(OSError, ValueError):
                os.dup2(nowhere, descriptor.fileno())
    try:
        process = subprocess.Popen(
            list(command),
            stdin=nowhere,
            stdout=output,
            stderr=output,
            env={**environ, AUTOSTART: str(os.getpid())},
            start_new_session=True,
        )
    except OSError as error:
        _answer(answers, f"failed {error.errno or 0}")
        return None
    _answer(answers, f"started {process.pid}")
    return process


def _answer(answers: int, text: str) -> None:
    # The run may have been killed meanwhile, and the job is to go on.
    with contextlib.suppress(OSError):
        os.write(answers, text.encode("ascii"))
    os.close(answers)


def shell_status(returncode: int) -> int:
    """Return what a shell would exit with: a signal's number above 128."""
    return 128 - returncode if returncode < 0 else returncode


def lock_output(output: int) -> None:
    """Mark an output as being written, while this process or its keeper lives, if the file system has locks."""
    with contextlib.suppress(OSError):
        fcntl.flock(output, fcntl.LOCK_SH)


def is_written(output: int) -> bool:
    """Tell whether the job of an output still runs; if not, the descriptor locks it."""
    try:
        fcntl.flock(output, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in NO_LOCKS_HERE:
            return time.time() - os.fstat(output).st_mtime < SILENT_SECONDS
        return True
    return False
