"""PuDB's screen without a terminal: keys come from the inbox, drawing goes to the terminals.

Only public methods of urwid's screen are overridden. A pty whose slave is given to PuDB, the usual way, loses typed
keys at every stop, echoes late answers of terminals, and needs private names for a resize.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import urwid
from pudb.debugger import ThreadsafeRawScreen
from urwid.display.escape import MoreInputRequired, process_keyqueue

from dbg_agent.stop.inbox import Redraw

if TYPE_CHECKING:
    from dbg_agent.debuggers.workplace import Workplace

INCOMPLETE_SECONDS = 0.15
"""Seconds to wait for the rest of an escape sequence: longer than a terminal's pause inside a sequence, shorter than a
user's pause between Esc and the next key."""

LONGEST_KEY = 128
"""Bytes that are looked at to find one key; no terminal has a longer sequence for a key."""


class NoFile:
    """PuDB's stdin and stdout, without a descriptor, so that no library can look for a terminal behind it."""

    def write(self, data: str) -> int:
        """Drop what is not drawn through the screen."""
        return len(data)

    def flush(self) -> None:
        """Do nothing."""


class AgentScreen(ThreadsafeRawScreen):  # type: ignore[misc] # PuDB is not typed
    """PuDB's screen in the stopped thread."""

    def __init__(self, workplace: Workplace) -> None:
        super().__init__(input=NoFile(), output=NoFile())
        self._workplace = workplace
        self._canvas: Any = None
        # The rank's TERM describes another terminal than the one that shows this screen.
        self.term = "xterm-256color"
        # Erasing in colour differs between terminals and multiplexers; blanks look the same everywhere.
        self.back_color_erase = False

    def signal_init(self) -> None:
        """Leave the program's signal handlers alone."""

    def signal_restore(self) -> None:
        """Leave the program's signal handlers alone."""

    def tty_signal_keys(self, *_args: Any, **_kwargs: Any) -> None:
        """Leave the program's terminal alone: without a descriptor here urwid would use that one."""

    def stop(self) -> None:
        """Refuse to give the terminal to another program: the only terminal here belongs to the rank."""
        if self._started:
            raise RuntimeError("this needs the rank's own terminal, which dbg-broker leaves alone")

    def get_cols_rows(self) -> tuple[int, int]:
        """Return the size of the driver's terminal."""
        terminal = self._workplace.terminal
        self.maxrow = terminal.rows
        return terminal.columns, terminal.rows

    def write(self, data: str) -> None:
        self._workplace.terminal.write(data.encode("utf-8", "replace"))

    def flush(self) -> None:
        """Do nothing: drawing is sent as it comes."""

    def draw_screen(self, size: tuple[int, int], canvas: Any) -> None:
        """Draw, and keep what was drawn for :meth:`text`."""
        # No interrupt may come meanwhile: the link's thread takes the same locks as a drawing.
        with self._workplace.interruptible.suspended():
            # The breakpoints are reported before they are drawn: a terminal may leave as soon as it shows one.
            self._workplace.breakpoints.update()
            self._canvas = canvas
            super().draw_screen(size, canvas)

    def text(self) -> tuple[str, ...]:
        """Return what was last drawn, one string per row."""
        canvas = self._canvas
        if canvas is None:
            return ()
        return tuple(row.decode("utf-8", "replace").rstrip() for row in canvas.text)

    def get_input(self, raw_keys: bool = False) -> Any:
        """Wait for one key; meanwhile do what the inbox asks.

        PuDB gets one key at a time, since it handles all keys of one call at the same stop: ``nnn`` would be one step.
        """
        with self._workplace.interruptible.suspended():
            keys = self._next_keys()
        return (keys, []) if raw_keys else keys

    def _next_keys(self) -> list[Any]:
        inbox, stop = self._workplace.inbox, self._workplace.stops.number
        seen, patience = 0, None
        while True:
            work = inbox.next_work_or_keys(stop, beyond=seen, patience=patience)
            if isinstance(work, Redraw):
                self.clear()
                return ["window resize"]
            self._workplace.thread.carry_out(work)
            codes = list(inbox.peek_keys(LONGEST_KEY)) if work is None else []
            if not codes:
                # Work was done, or the driver left and its keys went with it.
                seen, patience = 0, None
                continue
            more_may_come = patience is None and len(codes) < LONGEST_KEY
            try:
                keys, rest = process_keyqueue(codes, more_may_come)
            except MoreInputRequired:
                seen, patience = len(codes), INCOMPLETE_SECONDS
                continue
            self._workplace.thread.acknowledge_keys(len(codes) - len(rest))
            return list(keys)


def use_utf8() -> None:
    """Have urwid encode for the terminals that look, not for the rank's locale, which is often C."""
    urwid.set_encoding("utf-8")
