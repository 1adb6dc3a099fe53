"""The settings of a terminal, restored if its program died before it could do so."""

from __future__ import annotations

import contextlib
import os
import sys
import termios

_USUAL = b"\x18\x1b[?1000l\x1b[?1002l\x1b[?1006l\x1b[?2004l\x1b[?1049h\x1b[?1049l\x1b7\x1b[r\x1b8\x1b[0m\x1b[?25h\r\n"
"""No mouse reports, no bracketed paste, the main screen, no scroll region, no colours, a cursor.

The cursor stays where it is: it is saved before a sequence that moves it. Leaving the alternate screen moves it to
where the screen was last entered, so it is entered here first; a save with ``ESC 7`` does not count for that in tmux.
"""


class Screen:
    """The settings that the terminal has when this is made."""

    def __init__(self) -> None:
        self._settings: list[int | list[bytes | int]] | None = None
        if sys.stdin.isatty() and sys.stdout.isatty():
            with contextlib.suppress(OSError, termios.error):
                self._settings = termios.tcgetattr(sys.stdin.fileno())

    def restore(self) -> None:
        """Restore the settings; nothing happens if there is no terminal, or none any more."""
        if self._settings is None:
            return
        with contextlib.suppress(OSError, termios.error):
            os.write(sys.stdout.fileno(), _USUAL)
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSAFLUSH, self._settings)
