"""The screen of a raw session: the rank's bytes or a page of the client, and the status line below."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from dbg_client.terminal.screen import RawTerminal, TerminalWriter
from dbg_client.views import pages
from dbg_client.views.status_line import paint
from dbg_dial.deadline import within
from dbg_wire import limits
from dbg_wire.sequences import QueryFilter, StreamScanner

LEAVE_SECONDS = 0.3
"""Seconds that a terminal gets to take the last bytes before it is restored; longer would feel stuck."""

LEND_SECONDS = 3.0
"""Seconds that a terminal gets to take the last bytes before it is lent: a network under ssh stalls for about as long.
What is still to be drawn afterwards would come between what the borrower draws."""

STDOUT = 1


class Canvas:
    """Draw on the terminal, once it is open.

    ``dropped`` is called when the terminal was too slow and its screen is unknown, ``gone`` when it went away. Belongs
    to the running event loop. Without ``status`` the rank has the last row, too.
    """

    def __init__(
        self, terminal: RawTerminal, *, status: bool, dropped: Callable[[], None], gone: Callable[[], None]
    ) -> None:
        self._terminal = terminal
        self._status = status
        self._dropped = dropped
        self._gone = gone
        self._loop = asyncio.get_running_loop()
        self._writer: TerminalWriter | None = None
        self._suspended = False
        self._draining: asyncio.Task[None] | None = None
        self._painted: tuple[str, int] | None = None
        self._new_stream()
        self.size = terminal.size()

    @property
    def is_open(self) -> bool:
        """Return whether the client has the terminal."""
        return self._writer is not None

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
        self._write(pages.PUSH_TITLE)

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

    async def lend_row(self) -> None:
        """Lend the last row, and put the cursor there; what stands above stays as it is until :meth:`resume`."""
        self._write(pages.last_row(self.size[0]))
        await self._give_back(LEND_SECONDS)

    async def suspend(self) -> None:
        """Lend the terminal to something else: nothing is drawn until :meth:`resume`."""
        await self._give_back(LEND_SECONDS)
        self._terminal.leave_raw()

    def resume(self) -> None:
        """Take the terminal back; its screen is unknown."""
        self._terminal.enter_raw()
        self._suspended = False
        self.measure()
        self._write(pages.PUSH_TITLE)

    def title(self, address: str) -> None:
        """Name the window after the rank."""
        self._write(pages.title(address))

    def show(self, data: bytes) -> None:
        """Draw the rank's bytes, without those that would act on the terminal beyond drawing."""
        drawn = self._filter.feed(data)
        self._scanner.feed(drawn)
        self._draw(drawn)

    def page(self, text: str, *, wrap: bool = True) -> None:
        """Clear, bring the terminal to a known state, and write ``text``; the rank's stream begins anew.

        Without ``wrap`` what is drawn beyond the right edge is cut off, for a stream that is wider than the terminal.
        """
        self._new_stream()
        rows, columns = self.rank_size
        self._draw(pages.blank(text, rows, columns) + (b"" if wrap else pages.CUT_LINES))

    def paint(self, line: str) -> None:
        """Write the status line, unless the rank's stream is in the middle of a sequence."""
        painted = (line, self.size[0])
        if self._status and self._scanner.at_rest and painted != self._painted:
            self._painted = painted
            self._write(paint(line, self.size[0]))

    def bell(self) -> None:
        """Ring."""
        self._write(b"\x07")

    def _new_stream(self) -> None:
        self._filter = QueryFilter()
        self._scanner = StreamScanner()

    async def _give_back(self, seconds: float) -> None:
        self._write(pages.POP_TITLE)
        # What the rank draws while this waits would move the cursor away from where the terminal is handed over.
        self._suspended = True
        if self._writer is not None:
            with contextlib.suppress(asyncio.TimeoutError):
                await within(seconds, self._writer.drain())

    def _draw(self, data: bytes) -> None:
        self._painted = None
        self._write(data)

    def _write(self, data: bytes) -> None:
        if self._writer is None or self._suspended:
            return
        self._writer.write(data)
        if self._writer.gone:
            self._gone()
        elif self._writer.overflowed and self._draining is None:
            self._draining = self._loop.create_task(self._drain(self._writer))

    async def _drain(self, writer: TerminalWriter) -> None:
        dropped = await writer.drain()
        self._draining = None
        if dropped:
            self._dropped()
