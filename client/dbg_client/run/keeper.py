"""The job's process, and a small process that stays with it even if the terminal is closed.

The keeper is forked without an exec: it must be there before anything else, and all that it needs is loaded. Where the
job has a pseudo-terminal, in which progress bars are drawn, the keeper copies its output into the output's file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn

from dbg_client.run.environment import is_for_many_hosts
from dbg_command.home import NO_LOCKS_HERE
from dbg_dial.home import AUTOSTART
from dbg_wire.errors import DbgError, printable

USUAL_SIZE = (24, 80)
"""Rows and columns where the user has no terminal."""

READ_BYTES = 64 * 1024
"""Bytes of one read; a terminal gives 4 KiB at most."""

_STARTED = struct.Struct("=ii")
"""The keeper's word to the run: the number of the job's process and 0, or 0 and the number of the error."""

NOT_EXECUTABLE = 126
NOT_FOUND = 127
"""Exit statuses of shells for a command that can't be run, and for one that isn't there."""

SILENT_SECONDS = 7 * 24 * 3600.0
"""Seconds without a write after which an output counts as an ended job's on a file system without locks."""


def is_wanted(typed: bool | None, command: Sequence[str]) -> bool:
    """Tell whether a job gets a terminal: as typed, else where it would have this one without us.

    Launchers for many hosts hand the output of their ranks on themselves, whatever they write to.
    """
    if typed is not None:
        return typed
    return os.isatty(1) and not is_for_many_hosts(command)


class JobTerminal:
    """Be a new terminal as large as that of the user; nothing that is written to it is changed or echoed.

    ``master`` is for the keeper, ``slave`` for the job; both are closed here once the two have them.
    Raise OSError where no terminal is left.
    """

    def __init__(self) -> None:
        self.master, self.slave = os.openpty()
        self._path = os.ttyname(self.slave)
        settings = termios.tcgetattr(self.slave)
        settings[1] &= ~termios.OPOST
        settings[3] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(self.slave, termios.TCSANOW, settings)
        _set_size(self.slave)

    def resize(self) -> bool:
        """Make it as large as the user's terminal is now, and return whether it was of another size.

        Only while the keeper has it: the name is another's then.
        """
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path, os.O_RDWR | os.O_NOCTTY)
            try:
                before = os.get_terminal_size(descriptor)
                _set_size(descriptor)
                return os.get_terminal_size(descriptor) != before
            finally:
                os.close(descriptor)
        return False

    def close(self) -> None:
        """Forget the descriptors; the terminal is there as long as the keeper has it."""
        os.close(self.master)
        os.close(self.slave)


def _set_size(descriptor: int) -> None:
    rows, columns = _size_of_ours()
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _size_of_ours() -> tuple[int, int]:
    for stream in (1, 2, 0):
        with contextlib.suppress(OSError):
            columns, rows = os.get_terminal_size(stream)
            if columns and rows:
                return rows, columns
    return USUAL_SIZE


def copy_until_end(master: int, output: int, process: subprocess.Popen[bytes]) -> None:
    """Copy what a process writes to its terminal, until it has ended and all of that is in the file.

    What other processes of the job still write is copied by a process that is forked for it. Belongs to a process that
    does nothing else: it takes SIGCHLD.
    """
    os.set_blocking(master, False)
    is_open = True
    with _ends_of_children() as ends:
        while process.poll() is None:
            ready = _wait([ends, master] if is_open else [ends])
            with contextlib.suppress(BlockingIOError):
                os.read(ends, READ_BYTES)
            if master in ready:
                is_open = _copy_some(master, output) != 0
    while is_open and (copied := _copy_some(master, output)) is not None:
        is_open = copied != 0
    if is_open and os.fork() == 0:
        _copy_rest(master, output)


@contextlib.contextmanager
def _ends_of_children() -> Iterator[int]:
    """Yield a descriptor that is readable once a child has ended, also one that has ended before."""
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    former = signal.signal(signal.SIGCHLD, _end_the_wait)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    os.write(write_end, b"0")
    try:
        yield read_end
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, former)
        os.close(read_end)
        os.close(write_end)


def _end_the_wait(_number: int, _frame: FrameType | None) -> None:
    """Do nothing; without a handler a signal would not be noted at all."""


def _copy_rest(master: int, output: int) -> None:
    """Be the process that copies what is written after the command's end, and hold nothing else."""
    try:
        for descriptor in _own_descriptors():
            if descriptor not in (master, output) and descriptor > 2:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        while _copy_some(master, output) != 0:
            _wait([master])
    finally:
        os._exit(0)


def _own_descriptors() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208
    except OSError:
        return list(range(3, 1024))


def _copy_some(master: int, output: int) -> int | None:
    """Copy what is there, and return its bytes; 0 once nobody has the terminal open, None if there is nothing yet."""
    try:
        data = os.read(master, READ_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return 0
    # A full disk costs the output and not the job, which would wait for ever at a terminal that nobody reads.
    with contextlib.suppress(OSError):
        view = memoryview(data)
        while view:
            view = view[os.write(output, view) :]
    return len(data)


def _wait(descriptors: Sequence[int]) -> set[int]:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll()}


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


PASSED_ON = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""Signals that are meant for the job: Ctrl-C and Ctrl-\\ are typed at it, and a scheduler ends it by SIGTERM."""


class JobProcess:
    """A run's job from its start to its end: its status, its pseudo-terminal, and the signals that are meant for it.

    The ``keeper`` is the run's child, and ends with the status of ``process``, which has a process group of its own.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        """The exit status, None before the end."""
        self.began = 0.0
        """When it was started, in monotonic seconds."""
        self.keeper = self.process = 0
        self._ended = -1
        self._terminal: JobTerminal | None = None
        self._missed: list[int] = []

    def start(
        self, command: Sequence[str], environ: Mapping[str, str], output: int, terminal: JobTerminal | None = None
    ) -> None:
        """Start a command in a session of its own, its output appended to ``output``, and a keeper that waits for it.

        With a ``terminal``, which is closed here, the command writes to that, and the keeper copies it. The keeper
        inherits all our descriptors: what is locked or held here is so until the job ends. Signals that come meanwhile
        are passed on to it. Raise CantStart.
        """
        self.began = time.monotonic()
        self._terminal = terminal
        self._ended, write_end = os.pipe()
        self.keeper = os.fork()
        if self.keeper == 0:
            os.close(self._ended)
            _keep(command, environ, output, write_end, terminal)
        os.close(write_end)
        if terminal is not None:
            terminal.close()
        # So few bytes are written at once, and come as a whole; none come from a keeper that was ended.
        answer = os.read(self._ended, _STARTED.size)
        self.process, number = _STARTED.unpack(answer) if answer else (0, 0)
        if not self.process:
            self.wait()
            raise CantStart(command[0], number)
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
        handlers = {**dict.fromkeys(PASSED_ON, self._pass_on), signal.SIGWINCH: self.resize}
        return {number: signal.signal(number, handler) for number, handler in handlers.items()}

    def _pass_on(self, number: int, _: FrameType | None) -> None:
        if not self.process:
            # The job may run already, and not be known yet.
            self._missed.append(number)
        else:
            self.signal(number)

    def resize(self, number: int = signal.SIGWINCH, _: FrameType | None = None) -> None:
        """Make its terminal as large as the user's; after its end the terminal may be another's."""
        if self._terminal is not None and self.process and self.status is None and self._terminal.resize():
            self.signal(number)

    def fileno(self) -> int:
        """Return a descriptor that is readable once the keeper has ended; to be called after the start."""
        return self._ended

    def signal(self, *numbers: int) -> None:
        """Send signals to its process group, unless it has ended."""
        for number in numbers:
            if self.process and self.status is None:
                with contextlib.suppress(OSError):
                    os.killpg(self.process, number)

    def wait(self) -> int:
        """Return the status that a shell would give, once the keeper has ended."""
        if self.status is None:
            _, status = os.waitpid(self.keeper, 0)
            os.close(self._ended)
            self.status = shell_status(os.waitstatus_to_exitcode(status))
        return self.status


def _keep(
    command: Sequence[str], environ: Mapping[str, str], output: int, answers: int, terminal: JobTerminal | None
) -> NoReturn:
    """Be the keeper; whatever happens here must not run on in the code of whoever forked it."""
    status = 1
    try:
        # Neither the terminal's end nor its Ctrl-C is to reach the keeper.
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (*PASSED_ON, signal.SIGHUP, signal.SIGCHLD, signal.SIGWINCH):
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
        _answer(answers, 0, error.errno or 0)
        return None
    _answer(answers, process.pid, 0)
    return process


def _answer(answers: int, process: int, number: int) -> None:
    # The run may have been killed meanwhile, and the job is to go on. The pipe stays open until the keeper's end.
    with contextlib.suppress(OSError):
        os.write(answers, _STARTED.pack(process, number))


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
