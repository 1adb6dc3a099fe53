"""Silence of the broker, as far as its answers to pings tell; pure, with the times passed in.

Bytes alone prove little: what a rank draws may still come over a connection on which no key gets through any more.
"""

from __future__ import annotations

from dbg_wire.limits import KIB, SILENT_SECONDS

PING_SECONDS = 2.0
"""Seconds between two pings: how soon a terminal notices that its network is gone."""

FLOWING_BYTES = 16 * KIB
"""Bytes within SILENT_SECONDS behind which an answer may just be late; news of a few ranks are far less."""


class Silence:
    """The judgement of one connection. ``heard`` is always the number of bytes that have come so far."""

    def __init__(self, now: float) -> None:
        self._answered_at = self._asked_at = now
        self._is_owed = False
        self._heard = 0

    def wants_ping(self, now: float) -> bool:
        """Tell whether a ping is due: none is open, and the last one was sent PING_SECONDS ago."""
        return not self._is_owed and now - self._asked_at >= PING_SECONDS

    def pinged(self, now: float, heard: int) -> None:
        """Note that a ping is sent."""
        self._asked_at, self._is_owed, self._heard = now, True, heard

    def answered(self, now: float) -> None:
        """Note that the last ping is answered."""
        self._answered_at, self._is_owed = now, False

    def look(self, now: float, heard: int) -> None:
        """Note what has come: while much does, the answer is late behind it, and the wait for it begins anew."""
        if self._is_owed and heard - self._heard >= FLOWING_BYTES:
            self._asked_at = self._answered_at = now
            self._heard = heard

    def owed(self, now: float) -> float:
        """Return for how many seconds the answer to a ping is owed; 0 if none is."""
        return now - self._asked_at if self._is_owed else 0.0

    def since(self, now: float) -> float | None:
        """Return when the broker last answered, if that is SILENT_SECONDS ago and it owes an answer; else None."""
        is_silent = self._is_owed and now - self._answered_at >= SILENT_SECONDS
        return self._answered_at if is_silent else None
