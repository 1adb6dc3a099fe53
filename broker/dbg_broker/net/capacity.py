"""Places for each kind of connection, within the descriptors of the process. Pure.

No kind can use up the places of another one. A full broker can then still answer why it refuses, and a terminal can
still attach.
"""

from __future__ import annotations

from dataclasses import dataclass

from dbg_broker.net.newcomers import MAX_LINE, MAX_SLOTS
from dbg_wire import limits

MANY = 1 << 20
"""Descriptors of a process without a limit: more than any bound here."""

OWN_DESCRIPTORS = 24
"""Descriptors that are no connections: listening sockets, the event loop's, the home's, what a log or import opens."""

MORE_DESCRIPTORS = "start it after `ulimit -n` with a larger number"
"""What to do about a broker that has too few, as the end of a sentence."""

WATCHERS_SHARE = 0.875
"""Part of the terminals that may be watchers: the rest is for terminals that type, which watchers can't keep out."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The places for each kind of connection, within the descriptors of the process."""

    descriptors: int = MANY

    @property
    def slots(self) -> int:
        """How many handshakes may go on at the same time."""
        return min(MAX_SLOTS, max(2, self._connections // 8))

    @property
    def line(self) -> int:
        """How many connections may wait for a slot."""
        return min(MAX_LINE, max(2, self._connections // 8))

    @property
    def clients(self) -> int:
        """How many terminals may be connected."""
        return min(limits.MAX_CLIENTS, max(2, self._connections // 4))

    @property
    def watchers(self) -> int:
        """How many of these may be watchers."""
        return max(1, int(self.clients * WATCHERS_SHARE))

    @property
    def ranks(self) -> int:
        """How many ranks may be connected."""
        return max(1, min(limits.MAX_RANKS, self._connections - self.slots - self.line - self.clients))

    @property
    def why(self) -> str:
        """End of a sentence that names the limit on open files; empty if the broker's own bound is lower."""
        if self.ranks >= limits.MAX_RANKS:
            return ""
        return f", as it may have {self.descriptors} open files; {MORE_DESCRIPTORS}"

    @property
    def _connections(self) -> int:
        return max(8, self.descriptors - OWN_DESCRIPTORS)
