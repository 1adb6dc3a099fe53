"""Silence of the other end of the link, as far as this end can tell.

There are two signs. This host's kernel asks the other kernel all the time, and wakes no process for it. Pings also
detect that the peer behind a tunnel is gone while the tunnel's own end still answers.
"""

from __future__ import annotations

from dbg_wire.limits import PROBE_IDLE_SECONDS, SILENT_SECONDS

PING_SECONDS = PROBE_IDLE_SECONDS + 5.0
"""Seconds without a byte after which an idle link is pinged: below the idle time-outs of common firewalls and tunnels.
A broker that is there has sent a probe by then, which tells as much, so there is nothing to ping."""

PING_ATTENDED_SECONDS = 2.0
"""Seconds between two pings while a user sits at the rank, who should soon learn that a tunnel is silent."""

SHORTEST_LOOK_SECONDS = 0.5
"""Seconds between two looks at a link that may be silent."""


class Silence:
    """The judgement of one connection by the times that the caller passes in; pure."""

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
        """Tell whether a ping is due, and note that the caller sends it then."""
        pause = PING_ATTENDED_SECONDS if attended else PING_SECONDS
        due = self._is_silent or now - max(self._heard, self._pinged) >= pause
        if not self._is_answered or not due:
            return False
        self._pinged, self._is_answered = now, False
        return True

    def is_silent(self, now: float, since_ack: float) -> bool:
        """Tell whether the peer is silent; ``since_ack`` are the seconds since its kernel answered ours.

        Only a byte ends a silence. After the peer's kernel answers again, lost data may still be missing for minutes,
        since a kernel repeats it ever more rarely.
        """
        unanswered = not self._is_answered and now - self._pinged >= SILENT_SECONDS
        self._is_silent = self._is_silent or since_ack >= SILENT_SECONDS or unanswered
        return self._is_silent

    def next_look(self, now: float, since_ack: float, *, attended: bool) -> float:
        """Return the seconds until the next look: neither a silence nor a ping can be due earlier."""
        waits = [SILENT_SECONDS - since_ack]
        if self._is_answered:
            waits.append(max(self._heard, self._pinged) + (PING_ATTENDED_SECONDS if attended else PING_SECONDS) - now)
        else:
            waits.append(self._pinged + SILENT_SECONDS - now)
        return max(SHORTEST_LOOK_SECONDS, min(waits))
