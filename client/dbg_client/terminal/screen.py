"""Raw mode and non-blocking output of the user's terminal, which is given back as it was; what is drawn there.

:class:`RawTerminal` holds the settings, :class:`TerminalWriter` the output. Both open the terminal anew, as a file
description of their own: O_NONBLOCK belongs to the description, and the inherited one is shared with the user's shell,
which would find its terminal broken.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import select
import signal
import termios
import time
import tty
from collections.abc import Callable, Iterator
from types import TracebackType

from dbg_wire.errors import BadInput, printable

MAX_BUFFERED = 256 * 1024
"""Bytes that wait for a slow terminal, some fifty full screens; nobody wants to see older ones."""

RESTORE_PATIENCE = 1.0
"""Seconds for a terminal to take the reset: a frozen window must not keep the client from ending."""

CANCEL = b"\x18"
"""Ends the sequence that the terminal is in the middle of."""

_WRITE_SIZE = 64 * 1024  # bytes of one write; a pseudo-terminal takes less anyway
_BLOCKING_WRITE_SIZE = 1  # a terminal that says it has space may have no more, and would block for the rest
_FALLBACK_SIZE = (24, 80)

# Keys are plain bytes while raw: modifyOtherKeys off, one more entry on the stack of the kitty keyboard protocol, all
# features off. Some terminals misread that as "restore the cursor", so the cursor is saved before.
_ENTER = b"\x1b[>4;0m\x1b7\x1b[>u"

_POP = b"\x1b[<u"

# A synchronised update is shown; no reports of mouse or focus, no bracketed paste; cursor keys and keypad as usual.
_INPUT_AS_USUAL = (
    b"\x1b[?2026l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1004l\x1b[?2004l\x1b[?1l\x1b[?66l\x1b>"
)

_PLAIN = b"\x1b[4l\x1b[?7h\x1b[?5l\x0f\x1b(B\x1b)B\x1b[0m"
"""Overwrite, wrap, no reverse video, ASCII, no colours."""

_RESET = b"".join(
    (
        CANCEL,
        b"\x1b]8;;\x1b\\",  # no hyperlink
        _INPUT_AS_USUAL,
        b"\x1b[>4m",  # modifyOtherKeys off; before the colours, since some terminals take it for underline
        # Leaving the alternate screen puts the cursor where the screen was entered last, perhaps long ago. So the
        # screen is entered here, which does nothing more if it is shown already. A save (`ESC 7`) is no substitute:
        # tmux keeps that apart.
        b"\x1b[?1049h\x1b[?1049l",
        # Resetting the scroll region moves the cursor home. The client's keyboard entry is on the main screen's stack.
        b"\x1b7\x1b[r" + _POP + b"\x1b8",
        _PLAIN,  # after the last restored cursor, which brings its own
        b"\x1b[?12l\x1b[?25h",  # the cursor visible
    )
)

CALM = _RESET.replace(_POP, b"")
"""Undoes every mode that drawing may leave on, where nothing was put on the keyboard's stack."""


_KNOWN_STATE = CANCEL + _INPUT_AS_USUAL + b"\x1b[r\x1b[?6l" + _PLAIN

ENTER = b"\x1b[?1049h"
"""Shows the alternate screen; the user's shell and its history stay untouched behind it."""

CUT_LINES = b"\x1b[?7l"
"""Cuts lines off at the right edge, until the next page or the terminal's reset wraps them again."""


def last_row(rows: int) -> bytes:
    """Return the bytes that bring any terminal to a known state and clear its last row, the cursor at its beginning."""
    return _KNOWN_STATE + b"\x1b[%d;1H\x1b[2K\x1b[?25h" % rows


def blank(text: str, rows: int, columns: int) -> bytes:
    """Return the bytes that bring any terminal to a known state, clear it, hide the cursor and write ``text``."""
    drawn = ENTER + _KNOWN_STATE + b"\x1b[?25l\x1b[H\x1b[2J"
    for number, line in enumerate(text.split("\n")[: max(0, rows - 1)]):
        if line:
            drawn += b"\x1b[%d;2H%b" % (number + 2, printable(line, max(1, columns - 3)).encode())
    return drawn


class RawTerminal:
    """Switch a terminal between its own settings and raw, and leave it as it was.

    As a context manager it remembers the settings on entering and restores them on leaving, at the interpreter's exit
    at the latest. Entering raises BadInput where there is no terminal. A terminal that has gone away raises nothing
    afterwards: there is nothing left to restore.
    """

    def __init__(self, fd_in: int, fd_out: int) -> None:
        self._fd_in = fd_in
        self._fd_out = fd_out
        self._own_out, self._write_size = -1, 0
        self._saved: list[int | list[bytes | int]] | None = None
        self._raw = False

    def __enter__(self) -> RawTerminal:
        try:
            self._saved = termios.tcgetattr(self._fd_in)
        except termios.error:
            raise BadInput(
                "standard input is not a terminal", "run dbg-attach in one, or ask with list, screen or eval"
            ) from None
        self._own_out, self._write_size = _open_own(self._fd_out)
        atexit.register(self.restore)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.restore()
        atexit.unregister(self.restore)
        own, self._own_out = self._own_out, -1
        if own >= 0:
            os.close(own)

    def enter_raw(self) -> None:
        """Pass every key as it is typed and every byte as it is written; keep what was typed ahead.

        Calling it again is useful after the process was suspended: the shell has put its own settings back.
        """
        with contextlib.suppress(OSError, termios.error):
            tty.setraw(self._fd_in, termios.TCSANOW)
        if not self._raw:
            self._raw = True
            _write_patiently(self._own_out, _ENTER, self._write_size)

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Give another program the settings that the shell had, while the block runs; its screen stays."""
        own = termios.tcgetattr(self._fd_in)
        termios.tcsetattr(self._fd_in, termios.TCSADRAIN, self._saved or own)
        try:
            yield
        finally:
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(self._fd_in, termios.TCSADRAIN, own)

    def leave_raw(self) -> None:
        """Put terminal and settings back, keeping what was typed ahead; nothing happens if it isn't raw."""
        if not self._raw:
            return
        _write_patiently(self._own_out, _RESET, self._write_size)
        if self._saved is not None and _in_foreground(self._fd_in):
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(self._fd_in, termios.TCSANOW, self._saved)
        # Only now, so that a signal handler which interrupts the lines above does all of it again.
        self._raw = False

    def restore(self) -> None:
        """Put everything back for good, from anywhere and as often as you like; never raises, takes a second at most.

        Keys typed for the debugger and not read are dropped, or else the user's shell would run them.
        """
        if not self._raw:
            return
        self.leave_raw()
        with contextlib.suppress(OSError, termios.error):
            if _in_foreground(self._fd_in):
                termios.tcflush(self._fd_in, termios.TCIFLUSH)

    def size(self) -> tuple[int, int]:
        """Return (rows, columns); 24 by 80 where the terminal doesn't know."""
        with contextlib.suppress(OSError):
            columns, rows = os.get_terminal_size(self._fd_out)
            if rows > 0 and columns > 0:
                return rows, columns
        return _FALLBACK_SIZE


class TerminalWriter:
    """Write to a terminal without ever waiting for it.

    What the terminal doesn't take waits in a buffer of at most ``limit`` bytes. When that is full everything in it is
    dropped, ``overflowed`` becomes true and all that is written is dropped too, until :meth:`drain` returns true: the
    screen is then unknown and the caller asks for a repaint. Writing to a terminal that has gone away raises nothing;
    ``gone`` tells. All methods belong to the thread of ``loop``.
    """

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop, *, limit: int = MAX_BUFFERED) -> None:
        self._loop = loop
        self._limit = limit
        self._fd, self._write_size = _open_own(fd)
        self._buffer = bytearray()
        self._waiting = False
        self._empty = asyncio.Event()
        self._empty.set()
        self.overflowed = False
        self.gone = self._fd < 0

    @property
    def buffered(self) -> int:
        """Number of bytes that wait for the terminal."""
        return len(self._buffer)

    def write(self, data: bytes) -> None:
        """Give ``data`` to the terminal now, or as soon as it takes it."""
        if self.gone or self.overflowed:
            return
        self._buffer += data
        if not self._waiting:
            self._flush()
        if len(self._buffer) > self._limit:
            # The terminal may stand in the middle of a sequence whose rest goes away here.
            self._buffer[:] = CANCEL
            self.overflowed = True

    async def drain(self) -> bool:
        """Wait until the terminal has taken everything; return whether something was dropped since the last time.

        If so, writing works again, and the screen needs a repaint.
        """
        await self._empty.wait()
        dropped, self.overflowed = self.overflowed, False
        return dropped

    def close(self) -> None:
        """Stop writing; what still waits is dropped. Closing twice is fine."""
        self._lose()
        own, self._fd = self._fd, -1
        if own >= 0:
            os.close(own)

    def _flush(self) -> None:
        try:
            while self._buffer and _writable(self._fd, 0):
                del self._buffer[: os.write(self._fd, self._buffer[: self._write_size])]
        except BlockingIOError:
            pass
        except OSError:
            self._lose()
        self._wait_if(bool(self._buffer))

    def _wait_if(self, waiting: bool) -> None:
        if waiting == self._waiting:
            return
        self._waiting = waiting
        if waiting:
            self._empty.clear()
            self._loop.add_writer(self._fd, self._flush)
        else:
            self._loop.remove_writer(self._fd)
            self._empty.set()

    def _lose(self) -> None:
        self.gone = True
        self._buffer.clear()
        self._wait_if(False)


def _open_own(fd: int) -> tuple[int, int]:
    """Return a descriptor for the terminal behind ``fd`` and how much to write at once; -1 if it is gone."""
    for path in _terminal_paths(fd):
        with contextlib.suppress(OSError):
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY), _WRITE_SIZE
    with contextlib.suppress(OSError):
        return os.dup(fd), _BLOCKING_WRITE_SIZE
    return -1, 0


def _terminal_paths(fd: int) -> list[str]:
    paths = []
    with contextlib.suppress(OSError):
        paths.append(os.ttyname(fd))
    with contextlib.suppress(OSError):
        # After `su` the terminal's own name is the other user's, and in a container it may not exist; only our
        # controlling terminal has a foreground group to tell.
        os.tcgetpgrp(fd)
        paths.append("/dev/tty")
    return paths


def _in_foreground(fd: int) -> bool:
    # In the background the terminal is the shell's, which has put its settings back; a change would stop this process.
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return True


def _writable(fd: int, patience: float) -> bool:
    # Not poll(), which knows no terminals on macOS.
    return bool(select.select([], [fd], [], patience)[1])


def _write_patiently(fd: int, data: bytes, size: int) -> None:
    deadline = time.monotonic() + RESTORE_PATIENCE
    with contextlib.suppress(OSError, ValueError):
        while data and _writable(fd, max(0.0, deadline - time.monotonic())):
            with contextlib.suppress(BlockingIOError):
                data = data[os.write(fd, data[:size]) :]


def catch_hangup(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    """Call ``callback`` in the loop when the window closes (SIGHUP), until `release_hangup`.

    Not by the loop's ``add_signal_handler``: what removes that one lets SIGHUP end the process for a moment, and a
    signal mask holds it back from one thread alone.
    """
    signal.signal(signal.SIGHUP, lambda _number, _frame: loop.call_soon_threadsafe(callback))


def release_hangup(*, ignores: bool) -> None:
    """Let SIGHUP end this process again, or, with ``ignores``, do nothing.

    A window that closes sends SIGHUP twice, maybe after the end of its input. The first one detaches; the second one
    must not end the process before the broker has the Detach.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN if ignores else signal.SIG_DFL)
