"""Whether runs on this host need the broker of a home: a named pipe that the broker reads and every run holds open.

The kernel closes the pipe of a run that ends in any way, and a run can't take hold of it without a broker.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # A run only takes hold of the pipe, and is not to load asyncio for that.
    import asyncio

IN_USE_FILE = "in-use"


def hold(home: Path) -> int | None:
    """Return a descriptor that keeps the broker of this home until it is closed; None if none is on this host.

    A run with a descriptor can rely on the broker, which looks at the pipe before it ends.
    """
    try:
        descriptor = os.open(home / IN_USE_FILE, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # The broker counts a byte that it has read; while it ends it might miss an open alone.
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode) and os.write(descriptor, b"+"):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


class BrokerUsers:
    """The runs on this host that hold the broker of a home; belongs to the event loop's thread.

    If no named pipe can be made, no run is known, and ``changed`` is never called.
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
        """Let no run take hold any more; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)

    def _open(self) -> None:
        descriptor = None
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                os.close(descriptor)
                descriptor = None
        # The new descriptor is opened before the old one is closed: a run that comes in between must find a reader.
        # Without a new one no run can take hold any more, and the old one would stay readable for ever.
        self.close()
        self._descriptor = descriptor
        if descriptor is not None:
            self._loop.add_reader(descriptor, self._poll)

    def _poll(self) -> None:
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
            # A run holds the pipe, and its byte has been read before, perhaps by an earlier broker.
            self._held = True
            return
        except OSError:
            data = b""
        self._held = bool(data)
        if not data:
            # After the last writer this descriptor reports an end of file for ever; a new one doesn't.
            self._open()


class Leaving:
    """Timer that calls ``leave`` once no run and no connection has needed the broker for ``seconds``; None is never."""

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
        self._users = BrokerUsers(home, loop, self.poll)
        self.poll()

    def poll(self) -> None:
        """Begin to count anew, since a run or a connection needs the broker; after :meth:`close` do nothing."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if self._seconds is None else self._loop.call_later(self._seconds, self._overdue)

    def close(self) -> None:
        """Stop counting, and let no run take hold any more."""
        self._seconds = None
        self.poll()
        self._users.close()

    def _overdue(self) -> None:
        # A run that takes hold between this look and the close finds its pipe broken at once, and starts a broker.
        if self._is_used() or self._users.held:
            return
        self.close()
        self._leave()
