"""Who on this host needs the broker of a home: a named pipe that the broker reads and every run holds open.

The kernel keeps it right: a run that ends in any way lets go of it, and without a broker nobody can take hold.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # A run, which only takes hold, is not to load it.
    import asyncio

IN_USE_FILE = "in-use"


def hold(home: Path) -> int | None:
    """Return a descriptor that keeps the broker of this home until it is closed; None if none is on this host.

    Whoever gets one can rely on a broker that stays: it looks here before it goes.
    """
    try:
        descriptor = os.open(home / IN_USE_FILE, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # What it has read it counts; an open alone it might miss while it goes.
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode) and os.write(descriptor, b"+"):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


class BrokerUsers:
    """Know whether any run on this host holds the broker of a home; belongs to the event loop's thread.

    Where no named pipe can be made nobody is known to, and ``changed`` is never called.
    """

    def __init__(self, home: Path, loop: asyncio.AbstractEventLoop, changed: Callable[[], None]) -> None:
        self._path = home / IN_USE_FILE
        self._loop = loop
        self._changed = changed
        self._held = False
        self._descriptor: int | None = None
        with contextlib.suppress(OSError):
            os.mkfifo(self._path, 0o600)
        self._open()

    @property
    def held(self) -> bool:
        """Tell whether a run holds the broker now."""
        if self._descriptor is not None:
            self._read()
        return self._held

    def close(self) -> None:
        """Let nobody take hold any more; again does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)

    def _open(self) -> None:
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            # Nobody can take hold any more; what is left of the old one would stay readable for ever.
            self.close()
            return
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            return
        # Opened before the old one is closed: a run that comes in between must find somebody.
        self.close()
        self._descriptor = descriptor
        self._loop.add_reader(descriptor, self._look)

    def _look(self) -> None:
        before = self._held
        self._read()
        if self._held != before:
            self._changed()

    def _read(self) -> None:
        if self._descriptor is None:
            return
        try:
            data = os.read(self._descriptor, 4096)
        except BlockingIOError:
            # Somebody has it open and has said what there is to say, perhaps to a broker before this one.
            self._held = True
            return
        except OSError:
            data = b""
        self._held = bool(data)
        if not data:
            # The end that the last writer has left stays readable for ever; a new descriptor has not seen it.
            self._open()


class Leaving:
    """Call ``leave`` once nobody has needed the broker for some seconds: no run, no connection."""

    def __init__(
        self,
        home: Path,
        loop: asyncio.AbstractEventLoop,
        is_used: Callable[[], bool],
        leave: Callable[[], None],
        seconds: float | None,
    ) -> None:
        self._loop = loop
        self._is_used = is_used
        self._leave = leave
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._users = BrokerUsers(home, loop, self.look)
        self.look()

    def look(self) -> None:
        """Begin to count anew, since somebody has come or gone; once closed do nothing."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if self._seconds is None else self._loop.call_later(self._seconds, self._overdue)

    def close(self) -> None:
        """Stop counting, and let no run take hold any more."""
        self._seconds = None
        self.look()
        self._users.close()

    def _overdue(self) -> None:
        # Whoever takes hold between this look and the close finds its pipe broken at once, and starts another broker.
        if self._is_used() or self._users.held:
            return
        self.close()
        self._leave()
