"""Unauthenticated connections: a few have a slot for their handshake, and the others wait in a line. Pure.

Addresses take turns in the line, so that a flood from one address does not delay another. While connections of an
address wait, its slots end early, so that silent connections don't block others.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from dbg_wire import limits

HANDSHAKE_SECONDS = 5.0
"""Maximum time from the start of a connection's slot to its request with a token, in seconds."""

EARLY_SECONDS = 2.0
"""Timeout of a slot that others wait for, in seconds; an honest peer takes 20 ms, and on a busy host a second."""

SILENT_SECONDS = 0.5
"""Seconds after which a waiting connection that has sent nothing gets no slot: an honest peer sends bytes at once."""

MAX_SLOTS = 32
"""Maximum number of concurrent handshakes: if all continue in one turn of the event loop, they take 35 ms."""

MAX_LINE = 3072
"""Maximum number of connections in line, more than the 2,000 ranks of a large job; others wait in the kernel."""

W = TypeVar("W")


class Line(Generic[W]):
    """Connections that wait for a slot, by address; addresses take turns."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: OrderedDict[str, deque[W]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, address: str) -> bool:
        return address in self._waiting

    def put(self, one: W, address: str) -> W | None:
        """Add a connection. If too many wait, remove one and return it.

        It is the last connection of the address with the most connections.
        """
        self._waiting.setdefault(address, deque()).append(one)
        self._size += 1
        if self._size <= self._most:
            return None
        return self._remove(max(self._waiting, key=lambda known: len(self._waiting[known])), last=True)

    def pop(self, may: Callable[[str], bool]) -> tuple[str, W] | None:
        """Remove the first connection of the next address that ``may`` accepts.

        Return the address and the connection, or None if ``may`` accepts no address.
        """
        address = next(filter(may, self._waiting), None)
        if address is None:
            return None
        self._waiting.move_to_end(address)
        return address, self._remove(address, last=False)

    def _remove(self, address: str, *, last: bool) -> W:
        waiting = self._waiting[address]
        self._size -= 1
        one = waiting.pop() if last else waiting.popleft()
        if not waiting:
            del self._waiting[address]
        return one


@dataclass(frozen=True, slots=True)
class _Slot:
    address: str
    since: float


class Slots:
    """Slots for handshakes, by the numbers of their connections; one address may have half of the slots."""

    def __init__(self, most: int = MAX_SLOTS) -> None:
        self._most = most
        self._taken: dict[int, _Slot] = {}
        self._of: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._taken)

    def has_room(self, address: str) -> bool:
        """Return True if another connection of an address may have a slot."""
        return len(self._taken) < self._most and self._of[address] < max(1, self._most // 2)

    def take(self, number: int, address: str, now: float) -> None:
        """Assign a slot to a connection."""
        self._taken[number] = _Slot(address, now)
        self._of[address] += 1

    def free(self, number: int) -> bool:
        """Free the slot of a connection. Return True if it had one."""
        slot = self._taken.pop(number, None)
        if slot is None:
            return False
        self._of[slot.address] -= 1
        if not self._of[slot.address]:
            del self._of[slot.address]
        return True

    def overdue(self, line: Line[W], now: float) -> list[int]:
        """Return the connections whose slots end: after HANDSHAKE_SECONDS, or earlier if others wait for them."""
        is_full = len(self._taken) >= self._most and len(line) > 0
        found = []
        for number, slot in self._taken.items():
            ends_early = is_full or slot.address in line
            if now - slot.since >= (EARLY_SECONDS if ends_early else HANDSHAKE_SECONDS):
                found.append(number)
        return found


MANY = 1 << 20
"""Number that stands for an unlimited number of descriptors: more than the broker can use."""

OWN_DESCRIPTORS = 24
"""Descriptors that are not connections: listening sockets, the event loop, the home, logs and imports."""

MORE_DESCRIPTORS = "start it after `ulimit -n` with a larger number"
"""Remedy if the broker has too few descriptors, as the end of a sentence."""

WATCHERS_SHARE = 0.875
"""Share of the terminals that may be watchers: the rest is reserved for terminals that type."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Slots for each kind of connection, within the descriptor limit of the process."""

    descriptors: int = MANY

    @property
    def slots(self) -> int:
        """Maximum number of concurrent handshakes."""
        return min(MAX_SLOTS, max(2, self._connections // 8))

    @property
    def line(self) -> int:
        """Maximum number of connections that wait for a slot."""
        return min(MAX_LINE, max(2, self._connections // 8))

    @property
    def clients(self) -> int:
        """Maximum number of terminals."""
        return min(limits.MAX_CLIENTS, max(2, self._connections // 4))

    @property
    def watchers(self) -> int:
        """Maximum number of terminals that are watchers."""
        return max(1, int(self.clients * WATCHERS_SHARE))

    @property
    def ranks(self) -> int:
        """Maximum number of ranks."""
        return max(1, min(limits.MAX_RANKS, self._connections - self.slots - self.line - self.clients))

    @property
    def why(self) -> str:
        """End of a sentence that names the limit on open files; empty if that limit allows all ranks."""
        if self.ranks >= limits.MAX_RANKS:
            return ""
        return f", because it may have {self.descriptors} open files; {MORE_DESCRIPTORS}"

    @property
    def _connections(self) -> int:
        return max(8, self.descriptors - OWN_DESCRIPTORS)
