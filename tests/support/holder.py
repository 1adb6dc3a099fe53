"""Hold a terminal as a shell does: run one command in its foreground, and outlive it. Started for ``terminal.py``.

Without a holder the command would lead the terminal's session, and the kernel resets a terminal's settings when the
session's leader ends: a program that left the terminal raw would seem to have restored it.

The holder writes the command's process number and later its exit status to the control socket, each in a line. Then it
keeps the terminal open until that socket is closed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import sys
import termios

END_MARK = b"\x1b_command ended\x1b\\"
"""The invisible last output on the terminal: once a test has read it, all output before it is read too."""


def run_in_foreground(command: list[str]) -> int:
    """Start a command as the terminal's foreground group; return its process number once it is executed."""
    until_become, closed_by_command = os.pipe()
    pid = os.fork()
    if pid:
        os.close(closed_by_command)
        os.read(until_become, 1)
        os.close(until_become)
        return pid
    os.close(until_become)
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # The kernel closes the descriptor when the command is executed.
    execute(command)
    os._exit(127)


def execute(command: list[str]) -> None:
    try:
        os.execvp(command[0], command)  # noqa: S606 - the test's own argument list
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\r\n".encode())


def wait_without_reaping(pid: int) -> int:
    """Return the exit status, or the negated signal; the process number stays taken, so no other process gets it."""
    result = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    if result is None:
        raise ChildProcessError(pid)
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status


def hold(control: socket.socket, command: list[str]) -> None:
    """Run a command in the terminal, and return when its process number may be given away."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    pid = run_in_foreground(command)
    # A shell whose window closes sends SIGHUP to its jobs.
    signal.signal(signal.SIGHUP, lambda _number, _frame: os.kill(pid, signal.SIGHUP))
    control.sendall(f"{pid}\n".encode())
    status = wait_without_reaping(pid)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    control.sendall(f"{status}\n".encode())
    with contextlib.suppress(OSError):  # the window is closed
        os.write(1, END_MARK)
    control.recv(1)
    os.waitpid(pid, 0)


def main() -> None:
    """Run the command in the arguments; the first of them is the control socket's number."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    hold(control, sys.argv[2:])


if __name__ == "__main__":
    main()
