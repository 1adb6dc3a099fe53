"""The broker's log: ``-v`` shows what happens, ``-v -v`` each message too.

``docs/architecture.md`` lists all events.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable

LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
"""The levels without ``-v``, with one, and with more."""

MIN_SECRET = 8
"""Characters of the shortest text that is hidden: hiding an empty text would take every line apart."""


class LogFormatter(logging.Formatter):
    """Formatter that keeps tokens out of every line, also out of the texts of libraries and errors."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._secrets: tuple[str, ...] = ()

    def hide(self, secrets: Iterable[str]) -> None:
        """Have no line hold these texts."""
        self._secrets = (*self._secrets, *(secret for secret in secrets if len(secret) >= MIN_SECRET))

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's lines."""
        text = super().format(record)
        for secret in self._secrets:
            text = text.replace(secret, "<token>")
        return text


def start_log(verbosity: int) -> LogFormatter:
    """Log to stderr what the verbosity asks for, unless the program has handlers of its own."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = LogFormatter()
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=LEVELS[min(verbosity, len(LEVELS) - 1)])
    return formatter
