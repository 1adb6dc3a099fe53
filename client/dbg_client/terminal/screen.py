"""Raw mode and non-blocking output of the user's terminal, which is restored at the end; drawing sequences.

:class:`RawTerminal` holds the settings, :class:`TerminalWriter` the output. Both open the terminal again, as a separate
file description. O_NONBLOCK belongs to a description; on the inherited one it would also break the user's shell.
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
"""Maximum number of bytes that wait for a slow terminal: about fifty full screens; nobody needs older ones."""

RESTORE_PATIENCE = 1.0
"""Seconds for a terminal to accept the reset: a frozen window must not keep the client from exiting."""

CANCEL = b"\x18"
"""Ends an incomplete sequence in the terminal."""

_WRITE_SIZE = 64 * 1024  # bytes of one write; a pseudo-terminal takes less anyway
_BLOCKING_WRITE_SIZE = 1  # a terminal that reports space may have room for one byte only, and block then
_FALLBACK_SIZE = (24, 80)

# Keys are plain bytes while raw: modifyOtherKeys off, and an entry without features on the stack of the kitty keyboard
# protocol. Some terminals misread its `CSI > u` as "restore the cursor", so the cursor is saved first.
_ENTER = b"\x1b[>4;0m\x1b7\x1b[>u"

_POP = b"\x1b[<u"

# End a synchronised update; no mouse or focus reports, no bracketed paste; cursor keys and keypad in normal mode.
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
        b"\x1b[>4m",  # modifyOtherKeys off; before the colours, because some terminals take it for underline
        # Leaving the alternate screen puts the cursor where it was when that screen was entered, perhaps long ago.
        # So the screen is entered here, which has no other effect if it is already shown. Saving the cursor (`ESC 7`)
        # is not enough, because tmux keeps that position separately.
        b"\x1b[?1049h\x1b[?1049l",
        # Resetting the scroll region moves the cursor home, so the cursor is saved and restored. The client's keyboard
        # entry is removed here, because it is on the stack of the main screen.
        b"\x1b7\x1b[r" + _POP + b"\x1b8",
        _PLAIN,  # after the last restore of the cursor, which also restores colours and charset
        b"\x1b[?12l\x1b[?25h",  # cursor visible
    )
)

CALM = _RESET.replace(_POP, b"")
"""Undoes each mode that drawing may have switched on, without changing the keyboard's stack."""


_KNOWN_STATE = CANCEL + _INPUT_AS_USUAL + b"\x1b[r\x1b[?6l" + _PLAIN

ENTER = b"\x1b[?1049h"
"""Shows the alternate screen; the user's shell and its history stay unchanged behind it."""

CUT_LINES = b"\x1b[?7l"
"""Cuts lines off at the right edge, until :func:`blank` or the terminal's reset turns wrapping on again."""


def last_row(rows: int) -> bytes:
    """Return the bytes that bring any terminal to a known state and clear its last row, with the cursor there."""
    return _KNOWN_STATE + b"\x1b[%d;1H\x1b[2K\x1b[?25h" % rows


def blank(text: str, rows: int, columns: int) -> bytes:
    """Return the bytes that bring any terminal to a known state, clear it, hide the cursor and write ``text``."""
    drawn = ENTER + _KNOWN_STATE + b"\x1b[?25l\x1b[H\x1b[2J"
    for number, line in enumerate(text.split("\n")[: max(0, rows - 1)]):
        if line:
            drawn += b"\x1b[%d;2H%b" % (number + 2, printable(line, max(1, columns - 3)).encode())
    return drawn


class RawTerminal:
    """A terminal that is switched between its own settings and raw mode, and restored at the end.

    As a context manager it saves the settings on entry and restores them on exit, at the latest when the interpreter
    exits. Entering raises BadInput if there is no terminal. After that, a closed terminal raises nothing, because
    there is nothing to restore.
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
        """Pass every key as it is typed and every byte as it is written; keep keys that were typed ahead.

        Call it again after the process was suspended, because the shell has then restored its own settings.
        """
        with contextlib.suppress(OSError, termios.error):
            tty.setraw(self._fd_in, termios.TCSANOW)
        if not self._raw:
            self._raw = True
            _write_patiently(self._own_out, _ENTER, self._write_size)

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Restore the shell's settings for another program while the block runs; the screen does not change."""
        own = termios.tcgetattr(self._fd_in)
        termios.tcsetattr(self._fd_in, termios.TCSADRAIN, self._saved or own)
        try:
            yield
        finally:
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(self._fd_in, termios.TCSADRAIN, own)

    def leave_raw(self) -> None:
        """Restore terminal and settings, keeping keys that were typed ahead; do nothing if it isn't raw."""
        if not self._raw:
            return
        _write_patiently(self._own_out, _RESET, self._write_size)
        if self._saved is not None and _in_foreground(self._fd_in):
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(self._fd_in, termios.TCSANOW, self._saved)
        # This is last, so a signal handler that interrupts the lines above and calls `leave_raw` repeats all of them.
        self._raw = False

    def restore(self) -> None:
        """Restore the terminal at the end. May be called anywhere, repeatedly; never raises, takes at most a second.

        Unread keys that were typed for the debugger are dropped, because the user's shell would run them.
        """
        if not self._raw:
            return
        self.leave_raw()
        with contextlib.suppress(OSError, termios.error):
            if _in_foreground(self._fd_in):
                termios.tcflush(self._fd_in, termios.TCIFLUSH)

    def size(self) -> tuple[int, int]:
        """Return (rows, columns); 24 by 80 if the terminal doesn't know."""
        with contextlib.suppress(OSError):
            columns, rows = os.get_terminal_size(self._fd_out)
            if rows > 0 and columns > 0:
                return rows, columns
        return _FALLBACK_SIZE


class TerminalWriter:
    """Non-blocking writer to a terminal.

    Bytes that the terminal doesn't accept wait in a buffer of at most ``limit`` bytes. If the buffer is full, its
    content is dropped, and ``overflowed`` becomes true. All further output is dropped, too, until :meth:`drain` returns
    True. The screen is then unknown, and the caller requests a repaint. Writing to a closed terminal raises nothing,
    but sets ``gone``. All methods belong to the thread of ``loop``.
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
        """Send ``data`` to the terminal now, or as soon as the terminal accepts more."""
        if self.gone or self.overflowed:
            return
        self._buffer += data
        if not self._waiting:
            self._flush()
        if len(self._buffer) > self._limit:
            # The terminal may be in the middle of a sequence; its rest is dropped here.
            self._buffer[:] = CANCEL
            self.overflowed = True

    async def drain(self) -> bool:
        """Wait until the terminal has accepted everything; return True if output was dropped since the last call.

        If output was dropped, new output is accepted from now on, and the caller must repaint the screen.
        """
        await self._empty.wait()
        dropped, self.overflowed = self.overflowed, False
        return dropped

    def close(self) -> None:
        """Stop writing and drop waiting bytes. A second call does nothing."""
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
    """Return a descriptor for the terminal of ``fd`` and the size of one write; -1 if it is gone."""
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
        # After `su` the terminal's file belongs to the other user, and in a container the file may not exist. Then
        # use /dev/tty, our controlling terminal. `tcgetpgrp` raises OSError if ``fd`` is any other terminal.
        os.tcgetpgrp(fd)
        paths.append("/dev/tty")
    return paths


def _in_foreground(fd: int) -> bool:
    # While we are in the background, the terminal belongs to the shell, which has restored its own settings. If we
    # changed them, the kernel would stop this process.
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return True


def _writable(fd: int, timeout: float) -> bool:
    # Not poll(), which does not support terminals on macOS.
    return bool(select.select([], [fd], [], timeout)[1])


def _write_patiently(fd: int, data: bytes, size: int) -> None:
    deadline = time.monotonic() + RESTORE_PATIENCE
    with contextlib.suppress(OSError, ValueError):
        while data and _writable(fd, max(0.0, deadline - time.monotonic())):
            with contextlib.suppress(BlockingIOError):
                data = data[os.write(fd, data[:size]) :]


def catch_hangup(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    """Call ``callback`` in the loop when the window closes (SIGHUP), until `release_hangup`.

    The loop's ``add_signal_handler`` is not used: between its removal and the next handler, SIGHUP would end the
    process. A signal mask does not help, because it blocks SIGHUP in one thread only.
    """
    signal.signal(signal.SIGHUP, lambda _number, _frame: loop.call_soon_threadsafe(callback))


def release_hangup(*, ignores: bool) -> None:
    """Let SIGHUP end this process again, or, with ``ignores``, ignore it.

    A closing window sends SIGHUP twice, possibly after stdin has ended. The first SIGHUP detaches. The second one must
    not end the process before the broker has received the Detach.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN if ignores else signal.SIG_DFL)
