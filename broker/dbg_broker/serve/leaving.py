"""The end of a broker that was started for one run, once nobody is connected to it any more. Pure."""

from __future__ import annotations

from collections.abc import Callable


class Leaving:
    """Call ``leave`` at a sweep once no connection has needed the broker for ``seconds``; None is never."""

    def __init__(
        self, now: float, is_used: Callable[[], bool], leave: Callable[[], None], seconds: float | None
    ) -> None:
        self._since, self._is_used, self._leave, self._seconds = now, is_used, leave, seconds

    def used(self, now: float) -> None:
        """Count again from now on, since there is a new connection."""
        self._since = now

    def sweep(self, now: float) -> None:
        """Leave if it is time to."""
        if self._is_used():
            self._since = now
        elif self._seconds is not None and now - self._since >= self._seconds:
            self._leave()
