"""What systemd is told of this broker: that it is ready, what it does, that its loop runs, and that it stops.

The protocol is that of ``sd_notify``: a datagram of lines to the socket that a variable names.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping

STATUS_SECONDS = 5.0
"""Seconds between two looks at whether the status line is still true: it is for people who look now and then."""


class ServiceManager:
    """The socket of systemd, if it started this process to be told; without it nothing here does anything.

    Nothing blocks, and no error comes out: a manager that does not take a datagram misses it. Belongs to one thread.
    """

    def __init__(
        self, environ: Mapping[str, str], pid: int, schedule: Callable[[float, Callable[[], None]], object]
    ) -> None:
        """Read the variables of the manager; ``schedule`` calls something after some seconds."""
        self._schedule = schedule
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self._seconds = _watchdog_seconds(environ, pid)
        self._is_over = False
        self._status = ""

    def ready(self, status: Callable[[], str]) -> None:
        """Say that peers may dial now; from here on say what ``status`` returns, and that the loop runs."""
        self._send("READY=1")
        if self._address is not None:
            self._tick(status)

    def stopping(self) -> None:
        """Say that the shutdown has begun."""
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
    """Return what `systemctl status` shows."""
    counts = ((ranks, "rank"), (stopped, "stopped"), (terminals, "terminal"))
    return ", ".join(f"{count} {word}{'s' if word != 'stopped' and count != 1 else ''}" for count, word in counts)


def _address(name: str) -> str | None:
    """Return the socket's address; one that begins with @ is in the abstract namespace."""
    if name.startswith("@") and len(name) > 1:
        return f"\0{name[1:]}"
    return name if name.startswith("/") else None


def _watchdog_seconds(environ: Mapping[str, str], pid: int) -> float | None:
    """Return within how many seconds the manager wants a sign of life; None if it wants none of this process."""
    text, whose = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", str(pid))
    is_ours = text.isascii() and text.isdigit() and len(text) < 16 and int(text) > 0 and whose == str(pid)
    return int(text) / 1e6 if is_ours else None
