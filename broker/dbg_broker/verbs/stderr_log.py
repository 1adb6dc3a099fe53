"""The broker's log: ``-v`` shows what happens, ``-v -v`` each message too.

``docs/architecture.md`` lists all events.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable

LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
"""The levels without ``-v``, with one, and with more."""

MIN_SECRET = 8
"""Characters of the shortest text that is hidden: hiding an empty text would take every line apart."""


def _nothing() -> None:
    """Do nothing."""


class LogFormatter(logging.Formatter):
    """Formatter that keeps tokens out of every line, also out of the texts of libraries and errors."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._secrets: tuple[str, ...] = ()
        self.lacks_memory: Callable[[], None] = _nothing
        """Called in place of a line about an error for lack of memory."""

    def hide(self, secrets: Iterable[str]) -> None:
        """Have no line hold these texts."""
        self._secrets = (*self._secrets, *(secret for secret in secrets if len(secret) >= MIN_SECRET))

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep errors for lack of memory out of the log: a traceback of one tells nothing, and takes more."""
        if record.exc_info is None or not isinstance(record.exc_info[1], MemoryError):
            return True
        self.lacks_memory()
        return False

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's lines."""
        return self._without_secrets(super().format(record))

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "<token>")
        return text


class JsonLogFormatter(LogFormatter):
    """Formatter that makes one JSON document of a record, on one line and in ASCII, for programs that gather logs.

    ``at`` is in seconds since the epoch; ``exc`` is a traceback, and left out without one.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a document."""
        document: dict[str, object] = {
            "at": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            # Secrets are hidden before a character of theirs could be escaped.
            "message": self._without_secrets(record.getMessage()),
        }
        if record.exc_info:
            document["exc"] = self._without_secrets(self.formatException(record.exc_info))
        return json.dumps(document)


def start_log(verbosity: int, *, as_json: bool = False) -> LogFormatter:
    """Log to stderr what the verbosity asks for, unless the program has handlers of its own."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = JsonLogFormatter() if as_json else LogFormatter()
    handler.setFormatter(formatter)
    handler.addFilter(formatter.filter)
    logging.basicConfig(handlers=[handler], level=LEVELS[min(verbosity, len(LEVELS) - 1)])
    return formatter
