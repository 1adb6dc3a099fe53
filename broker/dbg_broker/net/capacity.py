"""How many connections of each kind the broker takes, given how many descriptors it may have. Pure.

Each kind has a share that no other kind can use up: connections before their first message, terminals, among them
terminals that may type, and ranks. A full broker can then still tell why it refuses, and a terminal can still attach.
"""

from __future__ import annotations

from dataclasses import dataclass

from dbg_wire import limits

MANY = 1 << 20
"""Descriptors of a process without a limit: more than any bound here."""

OWN_DESCRIPTORS = 24
"""Descriptors that are no connections: listening sockets, the event loop's, the home's, what a log or import opens."""

MAX_PENDING = 3072
"""Connections without a first message: three quarters of them are enough for a job of 2,000 ranks that come at once
through one address. More is no gain: if all of them end in the same moment, that takes a tenth of a second."""

PATIENCE_SECONDS = 0.25
"""Seconds that a connection has for its first message however many others wait; an honest peer takes milliseconds."""

MORE_DESCRIPTORS = "start it after `ulimit -n` with a larger number"
"""What to do about a broker that has too few, as the end of a sentence."""

WATCHERS_SHARE = 0.875
"""Part of the terminals that may be watchers: the rest is for terminals that type, which watchers can't keep out."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The places for each kind of connection, within the descriptors of the process."""

    descriptors: int = MANY

    @property
    def pending(self) -> int:
        """Return how many may wait before their first message."""
        return min(MAX_PENDING, max(2, self._connections // 4))

    @property
    def pending_of_address(self) -> int:
        """Return how many of these may come from one address."""
        return max(1, self.pending * 3 // 4)

    @property
    def clients(self) -> int:
        """Return how many terminals may be connected."""
        return min(limits.MAX_CLIENTS, max(2, self._connections // 4))

    @property
    def watchers(self) -> int:
        """Return how many of these may be watchers."""
        return max(1, int(self.clients * WATCHERS_SHARE))

    @property
    def ranks(self) -> int:
        """Return how many ranks may be connected."""
        return max(1, min(limits.MAX_RANKS, self._connections - self.pending - self.clients))

    @property
    def why(self) -> str:
        """Return the end of a sentence that names the limit on open files; empty if the broker's own bound is lower."""
        if self.ranks >= limits.MAX_RANKS:
            return ""
        return f", as it may have {self.descriptors} open files; {MORE_DESCRIPTORS}"

    @property
    def _connections(self) -> int:
        return max(8, self.descriptors - OWN_DESCRIPTORS)
