"""The pseudo-terminal of a job, in which progress bars are drawn; its output is copied into the output's file."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Sequence
from types import FrameType

from dbg_broker.run.environment import is_for_many_hosts

USUAL_SIZE = (24, 80)
"""Rows and columns where the user has no terminal."""

READ_BYTES = 64 * 1024
"""Bytes of one read; a terminal gives 4 KiB at most."""

YES, NO = "yes", "no"
"""What was typed: ``--pty`` or ``--no-pty``."""


def is_wanted(typed: str | None, command: Sequence[str]) -> bool:
    """Tell whether a job gets a terminal: as typed, else where it would have this one without us.

    Launchers for many hosts hand the output of their ranks on themselves, whatever they write to.
    """
    if typed is not None:
        return typed == YES
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

    def resize(self) -> None:
        """Make it as large as the user's terminal is now. Only while the keeper has it: the name is another's then."""
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path, os.O_RDWR | os.O_NOCTTY)
            try:
                _set_size(descriptor)
            finally:
                os.close(descriptor)

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
    woken, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _end_the_wait)
    os.set_blocking(master, False)
    is_open = True
    while process.poll() is None:
        ready = _wait([woken, master] if is_open else [woken])
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 512)
        if master in ready:
            is_open = _copy_some(master, output) is not _ENDED
    while is_open and (copied := _copy_some(master, output)) is not _NOTHING:
        is_open = copied is not _ENDED
    if is_open and os.fork() == 0:
        _copy_rest(master, output)


def _copy_rest(master: int, output: int) -> None:
    """Be the process that copies what is written after the command's end, and hold nothing else."""
    try:
        for descriptor in _own_descriptors():
            if descriptor not in (master, output) and descriptor > 2:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        while _copy_some(master, output) is not _ENDED:
            _wait([master])
    finally:
        os._exit(0)


def _own_descriptors() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208
    except OSError:
        return list(range(3, 1024))


_MORE, _NOTHING, _ENDED = "more", "nothing", "ended"


def _copy_some(master: int, output: int) -> str:
    """Copy what is there, and tell whether more may come at once, later, or never: nobody has the terminal open."""
    try:
        data = os.read(master, READ_BYTES)
    except BlockingIOError:
        return _NOTHING
    except OSError as error:
        if error.errno == errno.EINTR:
            return _MORE
        return _ENDED
    # A full disk costs the output and not the job, which would wait for ever at a terminal that nobody reads.
    with contextlib.suppress(OSError):
        view = memoryview(data)
        while view:
            view = view[os.write(output, view) :]
    return _MORE if data else _ENDED


def _wait(descriptors: Sequence[int]) -> set[int]:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll()}


def _end_the_wait(_number: int, _frame: FrameType | None) -> None:
    """Be a handler, without which the signal would not be noted at all."""
