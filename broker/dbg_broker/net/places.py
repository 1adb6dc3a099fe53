"""Admission control by number: how many connections of each kind, token and address there may be. Pure.

Each kind has a share that no other kind can use up: connections before their first message, terminals, among them
terminals that may type, and ranks. A full broker can then still tell why it refuses, and a terminal can still attach.

The home's own token is the user's, and its ranks may take every place that their addresses have. A token for one job,
or with a name, is in the hands of others. An address may be a NAT for several jobs, so its share is nearly all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from dbg_broker.net.metrics import Budget
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

FEW_WAIT = 16
"""Connections that may wait while newcomers are refused: an honest peer is told so within milliseconds."""

TOKEN_SHARE = 0.75
"""Part of the places for ranks that one token for a job, or with a name, may have; others find room."""

ADDRESS_SHARE = 0.875
"""Part of the places for ranks that one address may have."""

FEW_RANKS = 64
"""Places that a token and an address may have in any case: the ranks of one job, however few files a host allows."""


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


C = TypeVar("C")


class Arrivals(Generic[C]):
    """Connections that wait, by number, in the order in which they came.

    ``lacks`` returns why newcomers are refused at present, empty if they are not: no more than FEW_WAIT may wait then.
    """

    def __init__(self, capacity: Capacity, lacks: Callable[[], str] = str) -> None:
        self._capacity = capacity
        self._lacks = lacks
        self._waiting: dict[int, tuple[C, float, str]] = {}
        self._at: defaultdict[str, dict[int, None]] = defaultdict(dict)

    def __len__(self) -> int:
        return len(self._waiting)

    def numbers(self) -> set[int]:
        """Return the numbers of all that wait."""
        return set(self._waiting)

    def connections(self) -> list[C]:
        """Return all that wait."""
        return [connection for connection, _, _ in self._waiting.values()]

    def has_room(self, now: float) -> bool:
        """Tell whether one more may wait: there is a free place, or the oldest connection has had its time."""
        return len(self) < self._places or self.oldest(now) is not None

    def surplus(self, now: float) -> C | None:
        """Return the connection to close because more wait than may now; None if none is to be closed yet."""
        return self.oldest(now) if len(self) > self._places else None

    def oldest(self, now: float) -> C | None:
        """Return the connection that has waited longest, if it has had its time."""
        number = next(iter(self._waiting), None)
        return None if number is None or not self._has_had_its_time(number, now) else self._waiting[number][0]

    def come(self, number: int, connection: C, address: str, now: float) -> tuple[C, Budget] | None:
        """Note a connection; if too many wait, return the one to close for it: the oldest of its address, or of all.

        The bound that is reached comes with it.
        """
        self._waiting[number] = connection, now, address
        neighbours = self._at[address]
        neighbours[number] = None
        oldest = next(iter(neighbours))
        if len(neighbours) > self._capacity.pending_of_address and self._has_had_its_time(oldest, now):
            return self._waiting[oldest][0], Budget.WAITING_OF_ADDRESS
        if len(self) > self._places:
            return self._waiting[next(iter(self._waiting))][0], Budget.WAITING
        return None

    def leave(self, number: int) -> None:
        """Note that a connection doesn't wait any more; an unknown number is no error."""
        _, _, address = self._waiting.pop(number, (None, 0.0, None))
        if address is not None:
            del self._at[address][number]
            if not self._at[address]:
                del self._at[address]

    def overdue(self, now: float, seconds: float) -> list[C]:
        """Return the connections that have waited for ``seconds``."""
        overdue = []
        for connection, came, _ in self._waiting.values():
            if came + seconds > now:
                break
            overdue.append(connection)
        return overdue

    @property
    def _places(self) -> int:
        return min(FEW_WAIT, self._capacity.pending) if self._lacks() else self._capacity.pending

    def _has_had_its_time(self, number: int, now: float) -> bool:
        _, came, _ = self._waiting[number]
        return now >= came + PATIENCE_SECONDS


T = TypeVar("T", bound=Hashable)


class RankPlaces:
    """The rank connections by token and by address, of at most ``places``."""

    def __init__(self, places: int) -> None:
        self._of_token = max(FEW_RANKS, int(places * TOKEN_SHARE))
        self._of_address = max(FEW_RANKS, int(places * ADDRESS_SHARE))
        self._tokens: Counter[bytes] = Counter()
        self._addresses: Counter[str] = Counter()
        self._taken: dict[int, tuple[bytes | None, str]] = {}

    def refusal(self, token: bytes | None, address: str) -> str:
        """Return why there is no place for one more, empty if there is one; ``token`` is None for the home's own."""
        if token is not None and self._tokens[token] >= self._of_token:
            return f"{self._of_token} ranks use this token already, and that is its share of the broker"
        if self._addresses[address] >= self._of_address:
            return f"{self._of_address} ranks come from {address} already, and that is its share of the broker"
        return ""

    def take(self, number: int, token: bytes | None, address: str) -> None:
        """Note a rank's connection."""
        self._taken[number] = token, address
        self._addresses[address] += 1
        if token is not None:
            self._tokens[token] += 1

    def leave(self, number: int) -> None:
        """Note that a connection has ended; an unknown number is no error."""
        token, address = self._taken.pop(number, (None, None))
        if token is not None:
            _less(self._tokens, token)
        if address is not None:
            _less(self._addresses, address)


def _less(counts: Counter[T], name: T) -> None:
    counts[name] -= 1
    if not counts[name]:
        del counts[name]
