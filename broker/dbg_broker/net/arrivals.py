"""Connections before their first message, and which of them is closed when too many wait. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Generic, TypeVar

from dbg_broker.net import capacity
from dbg_broker.net.budgets import Budget
from dbg_broker.net.capacity import Capacity

C = TypeVar("C")

FEW = 16
"""Connections that may wait while newcomers are refused: an honest peer is told so within milliseconds."""


class Arrivals(Generic[C]):
    """Connections that wait, by number, in the order in which they came.

    ``lacks`` returns why newcomers are refused at present, empty if they are not: no more than FEW may wait then.
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
        return min(FEW, self._capacity.pending) if self._lacks() else self._capacity.pending

    def _has_had_its_time(self, number: int, now: float) -> bool:
        _, came, _ = self._waiting[number]
        return now >= came + capacity.PATIENCE_SECONDS
