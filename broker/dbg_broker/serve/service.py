"""A broker as a service of its host: its log on stderr, and its messages to systemd.

``-v`` logs events, ``-v -v`` also each message; ``docs/reference/log-lines.md`` lists all lines. The protocol of
systemd is ``sd_notify``: a datagram of lines to the socket that ``$NOTIFY_SOCKET`` names.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import sys
from collections.abc import Callable, Iterable, Mapping

STATUS_SECONDS = 5.0
"""Interval between two checks whether systemd's status line has changed, in seconds. It may be long, because only
people read that line.
"""

LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
"""Log levels without ``-v``, with one, and with more."""

MIN_SECRET = 8
"""Minimum length of a text that is hidden, in characters. An empty text would match before each character of a line."""


class ServiceManager:
    """Notification socket of systemd. Without one, all methods do nothing.

    No method blocks or raises an error: a datagram that the manager does not accept is lost. Use it in one thread only.
    """

    def __init__(
        self, environ: Mapping[str, str], pid: int, schedule: Callable[[float, Callable[[], None]], object]
    ) -> None:
        """Read the variables of the manager; ``schedule`` calls a function after some seconds."""
        self._schedule = schedule
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self._seconds = _watchdog_seconds(environ, pid)
        self._is_over = False
        self._status = ""

    def ready(self, status: Callable[[], str]) -> None:
        """Report that the broker is ready.

        Afterwards report each change of ``status``, and to systemd's watchdog that the event loop runs.
        """
        self._send("READY=1")
        if self._address is not None:
            self._tick(status)

    def stopping(self) -> None:
        """Report that the shutdown has begun."""
        self._is_over = True
        self._send("STOPPING=1")

    def _tick(self, status: Callable[[], str]) -> None:
        if self._is_over:
            return
        lines = [] if self._seconds is None else ["WATCHDOG=1"]
        text = status()
        if text != self._status:
            self._status = text
            lines.append(f"STATUS={text}")
        if lines:
            self._send(*lines)
        pause = STATUS_SECONDS if self._seconds is None else min(STATUS_SECONDS, self._seconds / 2)
        self._schedule(pause, lambda: self._tick(status))

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto("\n".join(lines).encode(), self._address)


def status_line(ranks: int, stopped: int, terminals: int) -> str:
    """Return the status line for `systemctl status`."""
    counts = ((ranks, "rank"), (stopped, "stopped"), (terminals, "terminal"))
    return ", ".join(f"{count} {word}{'s' if word != 'stopped' and count != 1 else ''}" for count, word in counts)


def _address(name: str) -> str | None:
    """Return the socket's address; a name that starts with @ is in the abstract namespace."""
    if name.startswith("@") and len(name) > 1:
        return f"\0{name[1:]}"
    return name if name.startswith("/") else None


def _watchdog_seconds(environ: Mapping[str, str], pid: int) -> float | None:
    """Return the watchdog's timeout in seconds, or None if the manager does not watch this process."""
    text, whose = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", str(pid))
    is_ours = text.isascii() and text.isdigit() and len(text) < 16 and int(text) > 0 and whose == str(pid)
    return int(text) / 1e6 if is_ours else None


class LogFormatter(logging.Formatter):
    """Formatter that removes tokens from every line, including texts of libraries and errors."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._secrets: tuple[str, ...] = ()

    def hide(self, secrets: Iterable[str]) -> None:
        """Hide these texts in every line."""
        # Each token is stored once, even after a broker has reloaded its tokens a thousand times.
        known = dict.fromkeys((*self._secrets, *secrets))
        self._secrets = tuple(secret for secret in known if len(secret) >= MIN_SECRET)

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        return self._without_secrets(super().format(record))

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "<token>")
        return text


class JsonLogFormatter(LogFormatter):
    """Formatter that writes each record as one line of ASCII JSON, for programs that collect logs.

    ``at`` is in seconds since the epoch; ``exc`` is a traceback, and is omitted without one.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a JSON document."""
        document: dict[str, object] = {
            "at": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            # Secrets are hidden first, because JSON may escape some of their characters.
            "message": self._without_secrets(record.getMessage()),
        }
        if record.exc_info:
            document["exc"] = self._without_secrets(self.formatException(record.exc_info))
        return json.dumps(document)


def start_log(verbosity: int, *, as_json: bool = False) -> LogFormatter:
    """Log to stderr with the requested verbosity, unless the program has handlers of its own."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = JsonLogFormatter() if as_json else LogFormatter()
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=LEVELS[min(verbosity, len(LEVELS) - 1)])
    return formatter
