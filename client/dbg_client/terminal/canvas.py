"""The screen of a raw session: the rank's bytes or a page of the client, and the status line below."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from dbg_client.terminal.recording import Recording
from dbg_client.terminal.screen import CALM, RawTerminal, TerminalWriter
from dbg_client.terminal.status_line import paint
from dbg_command.sequences import QueryFilter
from dbg_dial.tcp import within
from dbg_wire import limits
from dbg_wire.errors import printable

_KNOWN_STATE = (
    b"\x18"  # ends a sequence that was cut off
    b"\x1b[?2026l"
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1004l\x1b[?2004l"
    b"\x1b[?1l\x1b[?66l\x1b>"
    b"\x1b[r\x1b[?6l\x1b[4l\x1b[?7h\x1b[?5l"
    b"\x0f\x1b(B\x1b)B\x1b[0m"
)

ENTER = b"\x1b[?1049h"
"""Shows the alternate screen; the user's shell and its history stay untouched behind it."""

CUT_LINES = b"\x1b[?7l"
"""Cuts lines off at the right edge, until the next page or the terminal's reset wraps them again."""

PUSH_TITLE, POP_TITLE = b"\x1b[22;2t", b"\x1b[23;2t"
"""Keep the window's title, and put it back."""

_KEYS = (
    ("d  or  .", "detach: the rank stays as it is"),
    ("n / p", "next / previous stopped rank of this job"),
    ("r", "pick another rank"),
    (":", "a command to any ranks: where all, e 0-7 loss, release, help"),
    ("w", "take the keyboard"),
    ("R", "end the job and run it again, under dbg-attach run"),
    ("?", "this page"),
)

LEAVE_SECONDS = 0.3
"""Seconds that a terminal gets to take the last bytes before it is restored; longer would feel stuck."""

LEND_SECONDS = 3.0
"""Seconds that a terminal gets to take the last bytes before it is lent: a network under ssh stalls for about as long.
What is still to be drawn afterwards would come between what the borrower draws."""

STDOUT = 1


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


def title(address: str) -> bytes:
    """Return the bytes that name the window after the rank."""
    return b"\x1b]2;" + printable(address).encode() + b"\x07"


def line_help(prefix: str, *, sticky: bool) -> str:
    """Return what helps at a line debugger.

    ``prefix`` is the escape key's name, empty if there is none. ``sticky``: the source is shown after every stop.
    """
    lines = [f"{prefix}, then", *(f"  {key:<10}{does}" for key, does in _KEYS)] if prefix else []
    now = "on" if sticky else "off"
    lines += [
        "detach      leave the rank as it is",
        "sticky      " + ("stop showing" if sticky else "show") + f" the source after every stop; it is {now}",
        "Ctrl-C      drop the line; interrupt what runs",
        "Ctrl-D      ask whether to continue, kill or stay",
        "Tab         complete",
        "Alt-Enter   begin another line of the same block",
        "F4          emacs or vi keys",
        "help        the debugger's own help",
    ]
    return "\n".join(lines) + "\n"


def help_text(prefix: str) -> str:
    """Return the help page; ``prefix`` is the escape key's name."""
    keys = (*_KEYS[:-1], ("]", f"send {prefix} itself"), _KEYS[-1])
    lines = [f"{prefix}, then", ""]
    lines += [f"  {key:<10}{does}" for key, does in keys]
    lines += ["", "Every other key goes to the debugger, Ctrl-C too; those typed at a page like this one don't."]
    return "\n".join(lines)


class Canvas:
    """Draw on the terminal, once it is open.

    ``dropped`` is called when the terminal was too slow and its screen is unknown, ``gone`` when it went away. Belongs
    to the running event loop. Without ``status`` the rank has the last row, too.
    """

    def __init__(
        self,
        terminal: RawTerminal,
        *,
        status: bool,
        dropped: Callable[[], None],
        gone: Callable[[], None],
        recording: Recording | None = None,
    ) -> None:
        self._terminal = terminal
        self._recording = recording
        self._status = status
        self._dropped = dropped
        self._gone = gone
        self._loop = asyncio.get_running_loop()
        self._writer: TerminalWriter | None = None
        self._suspended = False
        self._draining: asyncio.Task[None] | None = None
        self._painted: tuple[str, int] | None = None
        self._filter = QueryFilter()
        self.size = terminal.size()

    @property
    def rank_size(self) -> tuple[int, int]:
        """Return the (rows, columns) that the rank gets."""
        rows, columns = self.size
        rows -= 1 if self._status and rows > 2 else 0
        return min(rows, limits.MAX_ROWS), min(columns, limits.MAX_COLUMNS)

    def measure(self) -> None:
        """Take note of the terminal's present size."""
        self._painted = None
        self.size = self._terminal.size()

    def open(self) -> None:
        """Make the terminal raw and take its screen."""
        self._terminal.enter_raw()
        self._writer = TerminalWriter(STDOUT, self._loop)
        self._write(PUSH_TITLE)

    async def close(self) -> None:
        """Give the terminal back as it was."""
        if self._draining is not None:
            self._draining.cancel()
            await asyncio.gather(self._draining, return_exceptions=True)
        if self._writer is None:
            return
        await self._give_back(LEAVE_SECONDS)
        self._writer.close()
        self._terminal.restore()
        self._record(CALM)

    async def lend(self, *, row: bool) -> None:
        """Lend the terminal to something else: nothing is drawn until :meth:`resume`.

        With ``row`` it begins in the last row, where the cursor is put; what stands above stays as it is.
        """
        if row:
            self._write(last_row(self.size[0]))
        await self._give_back(LEND_SECONDS)
        if not row:
            self._terminal.leave_raw()
            self._record(CALM)

    def resume(self) -> None:
        """Take the terminal back; its screen is unknown."""
        self._terminal.enter_raw()
        self._suspended = False
        self.measure()
        self._write(PUSH_TITLE)

    def title(self, address: str) -> None:
        """Name the window after the rank."""
        self._write(title(address))

    def show(self, data: bytes) -> None:
        """Draw the rank's bytes, without those that would act on the terminal beyond drawing."""
        self._draw(self._filter.feed(data))

    def page(self, text: str, *, wrap: bool = True) -> None:
        """Clear, bring the terminal to a known state, and write ``text``; the rank's stream begins anew.

        Without ``wrap`` what is drawn beyond the right edge is cut off, for a stream that is wider than the terminal.
        """
        self._filter = QueryFilter()
        rows, columns = self.rank_size
        self._draw(blank(text, rows, columns) + (b"" if wrap else CUT_LINES))

    def paint(self, line: str) -> None:
        """Write the status line; what the filter lets through ends between sequences."""
        painted = (line, self.size[0])
        if self._status and painted != self._painted:
            self._painted = painted
            self._write(paint(line, self.size[0]))

    def bell(self) -> None:
        """Ring."""
        self._write(b"\x07")

    async def _give_back(self, seconds: float) -> None:
        self._write(POP_TITLE)
        # What the rank draws while this waits would move the cursor away from where the terminal is handed over.
        self._suspended = True
        if self._writer is not None:
            with contextlib.suppress(TimeoutError):
                await within(seconds, self._writer.drain())

    def _draw(self, data: bytes) -> None:
        self._painted = None
        self._write(data)

    def _write(self, data: bytes) -> None:
        if self._writer is None or self._suspended:
            return
        self._writer.write(data)
        self._record(data)
        if self._writer.gone:
            self._gone()
        elif self._writer.overflowed and self._draining is None:
            self._draining = self._loop.create_task(self._drain(self._writer))

    def _record(self, data: bytes) -> None:
        if self._recording is not None:
            self._recording.shown(data)

    async def _drain(self, writer: TerminalWriter) -> None:
        dropped = await writer.drain()
        self._draining = None
        if dropped:
            self._dropped()
