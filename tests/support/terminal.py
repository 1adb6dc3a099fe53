"""A real terminal window: a pty, a program in its foreground, and the screen it would show."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.support.holder import END_MARK
from tests.support.processes import GRACE, USUAL_WAIT, with_death_signal
from tests.support.screen import VirtualScreen
from tests.support.time_unit import seconds

HOLDER = Path(__file__).with_name("holder.py")

CHUNK = 65536
"""Bytes read at once; a pty gives at most 4 KiB."""

GLANCE_SECONDS = 0.1
"""Seconds between two looks at a condition while the screen is silent: it may be about a file that another writes."""

Expected = str | re.Pattern[str] | Callable[["Terminal"], object]


class Terminal:
    """A terminal of the given size in which ``command`` runs; used from one thread.

    The program is the foreground job of a session whose leader outlives it, as under a shell. Its output is read only
    inside the waiting methods, so a terminal whose test does not wait is a viewer that does not read.
    """

    def __init__(
        self, command: Sequence[str], rows: int = 24, cols: int = 80, env: Mapping[str, str] | None = None
    ) -> None:
        self._virtual = VirtualScreen(rows, cols)
        self._master, slave = pty.openpty()
        self._set_size(rows, cols)
        self._control, control = socket.socketpair()
        self._control_text = ""
        self._skims = False
        self.output = bytearray()
        """All bytes of the program that have been read so far."""
        self._holder = self._start(command, os.environ if env is None else env, slave, control.fileno())
        os.close(slave)
        control.close()
        self._read_while(lambda: self.pid is None, seconds(USUAL_WAIT))

    def _start(
        self, command: Sequence[str], env: Mapping[str, str], slave: int, control: int
    ) -> subprocess.Popen[bytes]:
        holder = [sys.executable, "-I", "-S", str(HOLDER), str(control), *command]
        return subprocess.Popen(
            with_death_signal(holder),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=dict(env),
            start_new_session=True,
            pass_fds=(control,),
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def pid(self) -> int | None:
        return self._control_line(0)

    @property
    def processes(self) -> frozenset[int]:
        return frozenset({self._holder.pid} | ({self.pid} if self.pid is not None else set()))

    def _control_line(self, number: int) -> int | None:
        lines = self._control_text.split("\n")[:-1]
        return int(lines[number]) if len(lines) > number else None

    @property
    def ended(self) -> bool:
        """Whether the program has ended and all its output is read."""
        return self._finished()

    @property
    def screen(self) -> list[str]:
        return self._virtual.rows

    @property
    def virtual(self) -> VirtualScreen:
        return self._virtual

    def row(self, number: int) -> str:
        return self.screen[number]

    def send(self, keys: bytes | str) -> None:
        """Type ``keys`` and return when the terminal has taken them all; read nothing meanwhile."""
        data = keys.encode() if isinstance(keys, str) else keys
        while data:
            data = data[os.write(self._master, data) :]

    def wait_for(self, expected: Expected, timeout: float | None = None) -> str:
        """Read until the screen holds a text, matches a pattern, or satisfies a predicate; return the screen.

        Fail with the screen after ``timeout`` seconds, or as soon as the program has ended and all its output is read.
        """
        self._read_while(lambda: not self._shows(expected), seconds(USUAL_WAIT) if timeout is None else timeout)
        if self._shows(expected):
            return "\n".join(self.screen)
        name = getattr(expected, "__name__", None) or repr(expected)
        raise AssertionError(f"the screen never showed {name}; {self._fate()}\n{self.dump()}")

    def skim(self, until: bytes, timeout: float | None = None) -> None:
        """Read until these bytes have come, without an emulation of the output, which takes long for megabytes.

        Fail after ``timeout`` seconds, or as soon as the program has ended and all its output is read.
        """
        self._skims = True
        self._read_while(lambda: until not in self.output[-CHUNK:], seconds(USUAL_WAIT) if timeout is None else timeout)
        self._skims = False
        if until not in self.output[-CHUNK:]:
            raise AssertionError(f"the program never wrote {until!r}; {self._fate()}\n{self.dump()}")

    def _shows(self, expected: Expected) -> bool:
        if callable(expected):
            return bool(expected(self))
        text = "\n".join(self.screen)
        return expected in text if isinstance(expected, str) else expected.search(text) is not None

    def _fate(self) -> str:
        status = self._control_line(1)
        return "the program still runs" if status is None else f"the program ended with status {status}"

    def dump(self) -> str:
        """Return the screen in a frame, for a failed test's report."""
        width = max((len(row) for row in self.screen), default=0)
        edge = "+" + "-" * width + "+"
        return "\n".join([edge, *(f"|{row:<{width}}|" for row in self.screen), edge])

    def read_for(self, duration: float) -> None:
        """Read for ``duration`` seconds; only for a check that some output does *not* come."""
        self._read_while(lambda: True, duration)

    def exit_status(self, timeout: float | None = None) -> int:
        """Wait until the program has ended and all its output is read; return its status, negated if a signal."""
        self._read_while(lambda: True, seconds(USUAL_WAIT) if timeout is None else timeout)
        status = self._control_line(1)
        if status is None:
            raise AssertionError(f"the program (pid {self.pid}) has not ended\n{self.dump()}")
        return status

    def _read_while(self, condition: Callable[[], bool], timeout: float) -> None:
        """Read until ``condition`` is false, the program has ended and all its output is read, or time is up."""
        deadline = time.monotonic() + timeout
        while condition() and not self._finished():
            sources = [source for source in (self._master, self._control.fileno()) if source >= 0]
            remaining = deadline - time.monotonic()
            # poll, because select takes no descriptor above 1023, and hundreds of ranks with their logs use many.
            poll = select.poll()
            for source in sources:
                poll.register(source, select.POLLIN)
            ready = {descriptor for descriptor, _ in poll.poll(max(0.0, min(remaining, GLANCE_SECONDS)) * 1000)}
            if self._control.fileno() in ready:
                self._read_control()
            if self._master in ready:
                self._read_screen()
            if remaining <= 0:
                return

    def _finished(self) -> bool:
        return self._control_line(1) is not None and (self._master < 0 or END_MARK in self.output[-CHUNK:])

    def _read_control(self) -> None:
        data = self._control.recv(CHUNK)
        if not data:
            raise AssertionError(f"the terminal's holder is gone\n{self.dump()}")
        self._control_text += data.decode()

    def _read_screen(self) -> None:
        data = os.read(self._master, CHUNK)
        self.output += data
        if not self._skims:
            self._virtual.feed(data)

    def resize(self, rows: int, cols: int) -> None:
        """Give the window another size; the program gets SIGWINCH."""
        self._virtual.resize(rows, cols)
        self._set_size(rows, cols)

    def _set_size(self, rows: int, cols: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def settings(self) -> list[object]:
        """Return the terminal's settings as ``termios.tcgetattr`` does, to compare before and after a program."""
        return list(termios.tcgetattr(self._master))

    def signal(self, number: int) -> None:
        """Send the program a signal; nothing happens once it has ended."""
        if self.pid is not None and self._control_line(1) is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    def close_window(self) -> None:
        """Close the window under the program: it gets SIGHUP, and nothing can be read or written any more.

        A program that reads may notice either of the two first, as in any window.
        """
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def end(self) -> None:
        """Close the window, end the program if it goes on, and return when both are gone."""
        self.close_window()
        try:
            self._read_while(lambda: True, seconds(GRACE))
            self.kill()
            self._read_while(lambda: True, seconds(GRACE))
        finally:
            self._control.close()
            self._end_holder()

    def _end_holder(self) -> None:
        try:
            self._holder.wait(seconds(GRACE))
        except subprocess.TimeoutExpired:
            self._holder.kill()
            self._holder.wait(seconds(GRACE))
