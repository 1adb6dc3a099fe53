"""Admission control by number: how many connections of each kind, token and address there may be. Pure.

Each kind has a share that no other kind can use up: connections before their first message, terminals, among them
terminals that may type, and ranks. A full broker can then still tell why it refuses, and a terminal can still attach.

The home's own token is the user's, and its ranks may take every place that their addresses have. A token for one job,
or with a name, is in the hands of others. An address may be a NAT for several jobs, so its share is nearly all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
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
"""Seconds that a connection has for its first byte however many others wait; an honest peer takes milliseconds."""

ANSWERED_PATIENCE_SECONDS = 2.0
"""Seconds that it has after TLS has answered it: much was spent on it, and its host may be busy with a job's start."""

MORE_DESCRIPTORS = "start it after `ulimit -n` with a larger number"
"""What to do about a broker that has too few, as the end of a sentence."""

WATCHERS_SHARE = 0.875
"""Part of the terminals that may be watchers: the rest is for terminals that type, which watchers can't keep out."""

AT_ONCE_SECONDS = 0.5
"""Seconds that the broker takes for the first messages of all that it has admitted."""

LINE_SECONDS = 4.0
"""Seconds for which a newcomer waits for its turn at most, in the kernel and here: a rank that knows several brokers
gives up after six. What the broker has done for one that gave up is lost, and TLS is most of what a rank costs."""

FEW_OF_ADDRESS = 64
"""Connections of an address that wait without turning the last of them back: the ranks of several hosts."""

FEW_AT_ONCE = 256
"""Newcomers that are never too many: the ranks of a small job, however slow the broker's host is."""

FIRST_RATE = 500.0
"""Newcomers a second until it is measured: what a busy host with one processor for the broker serves with TLS."""

SMOOTHING = 0.3
"""Weight of the newest measure of the rate."""

LONGEST_LATER_SECONDS = 60.0
"""Seconds after which one is to come again at most."""

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


@dataclass(slots=True)
class _Arrival(Generic[C]):
    """A connection that waits, when it came, and its address."""

    connection: C
    came: float
    address: str
    is_answered: bool = False
    """Whether the costly part of its TLS handshake is over."""


@dataclass(slots=True)
class _AtAddress:
    """The connections that wait at one address, in their order, and those of them that owe bytes."""

    numbers: dict[int, None] = field(default_factory=dict)
    owing: dict[int, None] = field(default_factory=dict)


class Arrivals(Generic[C]):
    """Connections without a first message, by number, in the order in which they came.

    Each either owes bytes or waits for its turn here. One that owes them for long is closed for a newcomer: what was
    spent on those that wait for their turn would be lost. If there is none, newcomers wait in the kernel, unless that
    would take longer than LINE_SECONDS, or one address has more than FEW_OF_ADDRESS: the last one of the address with
    most is turned back then, which may be the newcomer.

    ``lacks`` returns why newcomers are refused at present, empty if they are not: no more than FEW_WAIT may wait then.
    """

    def __init__(self, capacity: Capacity, lacks: Callable[[], str] = str) -> None:
        self._capacity = capacity
        self._lacks = lacks
        self._waiting: dict[int, _Arrival[C]] = {}
        self._silent: dict[int, float] = {}
        self._answered: dict[int, float] = {}
        """Until when a connection has time for the bytes that it owes, in that order: its first ones, or later ones."""
        self._at: defaultdict[str, _AtAddress] = defaultdict(_AtAddress)
        self._sizes: defaultdict[int, dict[str, None]] = defaultdict(dict)
        """Addresses by how many wait there."""
        self._most = 0
        self._admitted: set[int] = set()
        self.pace = Pace()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def admitted(self) -> int:
        """Return how many of them have been admitted, and are to say their first message."""
        return len(self._admitted)

    def admit(self, number: int) -> None:
        """Note that a connection is admitted; an unknown number is no error."""
        if number in self._waiting:
            self._admitted.add(number)

    def numbers(self) -> set[int]:
        """Return the numbers of all that wait."""
        return set(self._waiting)

    def connections(self) -> list[C]:
        """Return all that wait."""
        return [arrival.connection for arrival in self._waiting.values()]

    def has_room(self, now: float, in_kernel: Callable[[], int]) -> bool:
        """Tell whether one more may come: there is a free place, or one that may be closed for it.

        ``in_kernel`` returns how many wait to be accepted.
        """
        if len(self) < self._places or self.oldest(now) is not None:
            return True
        if self._lacks():
            # Nobody is turned back who is to hear what the broker lacks.
            return False
        if len(self) + in_kernel() > self.pace.in_line:
            return True
        # One that has said nothing yet may have had its time in a moment.
        return not self._silent and self._most > FEW_OF_ADDRESS

    def turns_back(self, address: str, now: float) -> bool:
        """Tell whether a newcomer is the one to turn back, so that no connection need be made for it."""
        if len(self) < self._places or self._lacks() or self.oldest(now) is not None:
            return False
        return len(self._at[address].numbers if address in self._at else ()) >= self._most

    def surplus(self, now: float) -> tuple[C, Budget | None] | None:
        """Return a connection to close because more wait than may now; None if none is to be closed yet.

        With it comes the bound that is reached, or None for one that has done nothing wrong, and on which little was
        spent.
        """
        if len(self) <= self._places:
            return None
        oldest = self.oldest(now)
        if oldest is not None:
            return oldest, Budget.WAITING
        last = self._last_of_most()
        return None if last.is_answered or self._lacks() else (last.connection, None)

    def oldest(self, now: float) -> C | None:
        """Return the connection that has owed bytes for longest, if it has had its time."""
        for owing in (self._silent, self._answered):
            number = next(iter(owing), None)
            if number is not None and owing[number] <= now:
                return self._waiting[number].connection
        return None

    def come(self, number: int, connection: C, address: str, now: float) -> tuple[C, Budget | None] | None:
        """Note a connection; if too many wait, return the one to close for it.

        With it comes the bound that is reached, or None for one that has done nothing wrong.
        """
        self._waiting[number] = _Arrival(connection, now, address)
        at = self._at[address]
        at.numbers[number] = None
        self._resize(address, len(at.numbers) - 1)
        self._silent[number] = now + PATIENCE_SECONDS
        at.owing[number] = None
        if len(at.numbers) > self._capacity.pending_of_address:
            first = next(iter(at.owing), None)
            if first is not None and self._has_had_its_time(first, now):
                return self._waiting[first].connection, Budget.WAITING_OF_ADDRESS
        if len(self) <= self._places:
            return None
        oldest = self.oldest(now)
        return (self._last_of_most().connection, None) if oldest is None else (oldest, Budget.WAITING)

    def owes(self, number: int, now: float) -> None:
        """Note that a connection is to go on now that it is answered; an unknown number is no error."""
        arrival = self._waiting.get(number)
        if arrival is not None:
            self.has_said(number)
            arrival.is_answered = True
            self._answered[number] = now + ANSWERED_PATIENCE_SECONDS
            self._at[arrival.address].owing[number] = None

    def has_said(self, number: int) -> None:
        """Note that a connection has said something, and waits for its turn; an unknown number is no error."""
        if (self._silent.pop(number, None) or self._answered.pop(number, None)) is not None:
            del self._at[self._waiting[number].address].owing[number]

    def leave(self, number: int) -> None:
        """Note that a connection doesn't wait any more; an unknown number is no error."""
        self.has_said(number)
        self._admitted.discard(number)
        arrival = self._waiting.pop(number, None)
        if arrival is None:
            return
        at = self._at[arrival.address]
        del at.numbers[number]
        self._resize(arrival.address, len(at.numbers) + 1)
        if not at.numbers:
            del self._at[arrival.address]

    def overdue(self, now: float, seconds: float) -> list[C]:
        """Return the connections that have waited for ``seconds``."""
        overdue = []
        for arrival in self._waiting.values():
            if arrival.came + seconds > now:
                break
            overdue.append(arrival.connection)
        return overdue

    @property
    def _places(self) -> int:
        return min(FEW_WAIT if self._lacks() else self.pace.in_line, self._capacity.pending)

    def _resize(self, address: str, before: int) -> None:
        """Note that another number of connections waits at an address."""
        size = len(self._at[address].numbers)
        self._sizes[before].pop(address, None)
        self._sizes[size][address] = None
        self._most = max(self._most, size)
        while self._most and not self._sizes[self._most]:
            del self._sizes[self._most]
            self._most -= 1
        self._sizes.pop(0, None)

    def _last_of_most(self) -> _Arrival[C]:
        """Return the last one of the address with most; of several the one that has become so last."""
        address = next(reversed(self._sizes[self._most]))
        return self._waiting[next(reversed(self._at[address].numbers))]

    def _has_had_its_time(self, number: int, now: float) -> bool:
        return now >= (self._silent.get(number) or self._answered[number])


class Pace:
    """How fast newcomers are served, measured while some wait, and when others are to come."""

    def __init__(self) -> None:
        self._rate = FIRST_RATE
        self._looked: tuple[float, int, bool] | None = None
        self._next = 0.0

    @property
    def at_once(self) -> int:
        """Return how many may be between their admission and their first message: a busy broker has more."""
        return max(FEW_AT_ONCE, int(self._rate * AT_ONCE_SECONDS))

    @property
    def in_line(self) -> int:
        """Return how many may wait so that each has its turn within LINE_SECONDS."""
        return max(FEW_AT_ONCE, int(self._rate * LINE_SECONDS))

    def look(self, served: int, waiting: int, now: float) -> None:
        """Measure, a few times a second; ``served`` counts all that have been served so far."""
        is_busy = waiting >= FEW_WAIT
        if self._looked is not None and is_busy and self._looked[2]:
            at, before, _ = self._looked
            if now > at:
                self._rate += SMOOTHING * ((served - before) / (now - at) - self._rate)
        self._looked = now, served, is_busy

    def later(self, waiting: int, now: float) -> float:
        """Return after how many seconds one is to come for whom there is no place in line: each gets a slot."""
        rate = max(1.0, self._rate)
        self._next = min(max(self._next, now + waiting / rate) + 1 / rate, now + LONGEST_LATER_SECONDS)
        return self._next - now


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
