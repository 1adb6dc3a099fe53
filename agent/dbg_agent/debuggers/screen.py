"""PuDB's screen without a terminal: keys are read from the inbox, drawing is sent to the terminals.

Only public methods of urwid's screen are overridden. The usual way is to connect PuDB to a pty. But a pty loses typed
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
"""Wait in seconds for the rest of an escape sequence. It is longer than a terminal's pause inside a sequence, and
shorter than a user's pause after Esc."""

LONGEST_KEY = 128
"""Maximum number of bytes examined to find one key; no terminal has a longer sequence for a key."""


class NoFile:
    """PuDB's stdin and stdout, without a descriptor, so that no library can look for a terminal there."""

    def write(self, data: str) -> int:
        """Drop text that is not drawn through the screen."""
        return len(data)

    def flush(self) -> None:
        """Do nothing."""


class AgentScreen(ThreadsafeRawScreen):  # type: ignore[misc] # PuDB is not typed
    """PuDB's screen in the stopped thread."""

    def __init__(self, workplace: Workplace) -> None:
        super().__init__(input=NoFile(), output=NoFile())
        self._workplace = workplace
        self._canvas: Any = None
        # The rank's TERM does not describe the terminal that shows this screen.
        self.term = "xterm-256color"
        # Erasing in colour differs between terminals and multiplexers; blanks look the same everywhere.
        self.back_color_erase = False

    def signal_init(self) -> None:
        """Leave the program's signal handlers unchanged."""

    def signal_restore(self) -> None:
        """Leave the program's signal handlers unchanged."""

    def tty_signal_keys(self, *_args: Any, **_kwargs: Any) -> None:
        """Leave the program's terminal unchanged. This screen has no descriptor, and urwid would use that terminal."""

    def stop(self) -> None:
        """Raise RuntimeError: PuDB wants to run a program in the only terminal here, which belongs to the rank."""
        if self._started:
            raise RuntimeError("this needs the rank's own terminal, which the debugger doesn't use")

    def get_cols_rows(self) -> tuple[int, int]:
        """Return the size of the driver's terminal."""
        terminal = self._workplace.terminal
        self.maxrow = terminal.rows
        return terminal.columns, terminal.rows

    def write(self, data: str) -> None:
        self._workplace.terminal.write(data.encode("utf-8", "replace"))

    def flush(self) -> None:
        """Do nothing: drawing is sent at once."""

    def draw_screen(self, size: tuple[int, int], canvas: Any) -> None:
        """Draw, and keep the drawing for :meth:`text`."""
        # No interrupt may be raised here, because a drawing uses locks of the link's thread.
        with self._workplace.interruptible.suspended():
            # Breakpoints are reported before they are drawn: a terminal may leave as soon as it shows a new breakpoint.
            self._workplace.breakpoints.update()
            self._canvas = canvas
            super().draw_screen(size, canvas)

    def text(self) -> tuple[str, ...]:
        """Return the last drawing, one string per row."""
        canvas = self._canvas
        if canvas is None:
            return ()
        return tuple(row.decode("utf-8", "replace").rstrip() for row in canvas.text)

    def get_input(self, raw_keys: bool = False) -> Any:
        """Wait for one key; do the work of the inbox during the wait.

        PuDB gets one key at a time, because it handles all keys of one call at the same stop: ``nnn`` would be one
        step.
        """
        with self._workplace.interruptible.suspended():
            keys = self._next_keys()
        return (keys, []) if raw_keys else keys

    def _next_keys(self) -> list[Any]:
        inbox, stop = self._workplace.inbox, self._workplace.stops.number
        seen, timeout = 0, None
        while True:
            work = inbox.next_work_or_keys(stop, beyond=seen, timeout=timeout)
            if isinstance(work, Redraw):
                self.clear()
                return ["window resize"]
            self._workplace.thread.carry_out(work)
            codes = list(inbox.peek_keys(LONGEST_KEY)) if work is None else []
            if not codes:
                # Work was done, or the driver left and its keys were discarded.
                seen, timeout = 0, None
                continue
            more_may_come = timeout is None and len(codes) < LONGEST_KEY
            try:
                keys, rest = process_keyqueue(codes, more_may_come)
            except MoreInputRequired:
                seen, timeout = len(codes), INCOMPLETE_SECONDS
                continue
            self._workplace.thread.acknowledge_keys(len(codes) - len(rest))
            return list(keys)


def use_utf8() -> None:
    """Make urwid encode for the viewing terminals, not for the rank's locale, which is often C."""
    urwid.set_encoding("utf-8")
