"""The end of a broker that was started for one run, once nobody is connected to it any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Leaving:
    """Timer that calls ``leave`` once no connection has needed the broker for ``seconds``; None is never."""

    def __init__(
        self,
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
        self.poll()

    def poll(self) -> None:
        """Begin to count anew, since a connection has gone; after :meth:`close` do nothing."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if self._seconds is None else self._loop.call_later(self._seconds, self._overdue)

    def close(self) -> None:
        """Stop counting."""
        self._seconds = None
        self.poll()

    def _overdue(self) -> None:
        if not self._is_used():
            self._leave()
