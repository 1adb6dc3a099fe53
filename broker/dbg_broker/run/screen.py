"""Give a terminal back that its program did not live to give back itself."""

from __future__ import annotations

import contextlib
import os
import sys
import termios

_USUAL = b"\x18\x1b[?1000l\x1b[?1002l\x1b[?1006l\x1b[?2004l\x1b[?1049h\x1b[?1049l\x1b7\x1b[r\x1b8\x1b[0m\x1b[?25h\r\n"
"""No mouse reports, no bracketed paste, the main screen, no scroll region, no colours, a cursor.

The cursor stays where it is: it is saved before what moves it. Leaving the alternate screen restores where that was
entered last, so it is entered here; a save with ``ESC 7`` does not count for that in tmux.
"""


class Screen:
    """Remember how the terminal is now."""

    def __init__(self) -> None:
        self._settings: list[int | list[bytes | int]] | None = None
        if sys.stdin.isatty() and sys.stdout.isatty():
            with contextlib.suppress(OSError, termios.error):
                self._settings = termios.tcgetattr(sys.stdin.fileno())

    def restore(self) -> None:
        """Make it so again; nothing happens where there is no terminal, or none any more."""
        if self._settings is None:
            return
        with contextlib.suppress(OSError, termios.error):
            os.write(sys.stdout.fileno(), _USUAL)
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSAFLUSH, self._settings)
