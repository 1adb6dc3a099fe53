"""Whether the other end of the link is still there, as far as this end can tell.

Two witnesses: this host's kernel, which asks the other kernel all the time and wakes nobody for it, and pings, which
also see through a tunnel that answers for a peer that is gone.
"""

from __future__ import annotations

from dbg_wire.limits import SILENT_SECONDS

PING_SECONDS = 20.0
"""Seconds between two pings of an idle link: below the idle time-outs of common firewalls and tunnels."""

PING_ATTENDED_SECONDS = 2.0
"""Seconds between two pings of a link while somebody sits at its rank: how soon a silent tunnel is noticed."""

SHORTEST_LOOK_SECONDS = 0.5
"""Seconds between two looks at a link about which there is doubt."""


class Silence:
    """Judge one connection by what is told of it; pure but for the times that are given."""

    def __init__(self, now: float) -> None:
        self._heard = self._pinged = now
        self._is_answered = True
        self._is_silent = False

    def heard(self, at: float) -> None:
        """Note when the last byte came."""
        if at > self._heard:
            self._heard = at
            self._is_answered = True
            self._is_silent = False

    def wants_ping(self, now: float, *, attended: bool) -> bool:
        """Tell whether a ping is due, and note that it is sent then."""
        pause = PING_ATTENDED_SECONDS if attended else PING_SECONDS
        due = self._is_silent or now - max(self._heard, self._pinged) >= pause
        if not self._is_answered or not due:
            return False
        self._pinged, self._is_answered = now, False
        return True

    def is_silent(self, now: float, since_ack: float) -> bool:
        """Tell whether the peer is silent; ``since_ack`` are the seconds since its kernel answered ours.

        Only a byte ends a silence. A kernel that answers again may still keep what was lost for minutes, since it asks
        ever more rarely whether that comes through.
        """
        unanswered = not self._is_answered and now - self._pinged >= SILENT_SECONDS
        self._is_silent = self._is_silent or since_ack >= SILENT_SECONDS or unanswered
        return self._is_silent

    def next_look(self, now: float, since_ack: float, *, attended: bool) -> float:
        """Return the seconds until the next look: what is heard until then makes it needless to look earlier."""
        waits = [SILENT_SECONDS - since_ack]
        if self._is_answered:
            waits.append(max(self._heard, self._pinged) + (PING_ATTENDED_SECONDS if attended else PING_SECONDS) - now)
        else:
            waits.append(self._pinged + SILENT_SECONDS - now)
        return max(SHORTEST_LOOK_SECONDS, min(waits))
