"""How often peers have reached a bound that the broker sets them, by role and bound. Pure.

A bound that is reached is nothing to alarm anybody: it did its work. The counts say which bound an unusual job meets,
and which peers test the broker's bounds.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator


class Payer(enum.Enum):
    """Whose budget a bound is."""

    STRANGER = "stranger"
    """A connection whose token is not known yet."""
    RANK = "rank"
    GUARD = "guard"
    DRIVER = "driver"
    WATCHER = "watcher"
    STOCK = "stock"
    """A stock debugger, which has no token."""


class Budget(enum.Enum):
    """What is bounded; the values are labels of ``dbg_broker_budget_hits_total``."""

    WAITING = "waiting"
    """Connections before their first message, all together."""
    WAITING_OF_ADDRESS = "waiting_of_address"
    """Connections of one address before their first message."""
    HANDSHAKE_SECONDS = "handshake_seconds"
    """Seconds until the first message."""
    FAILURES = "failures"
    """Failed attempts of one address."""
    REQUESTS = "requests"
    """Requests of one address for a page."""
    MESSAGE_SECONDS = "message_seconds"
    """Seconds until a message is complete."""
    UNFINISHED_BYTES = "unfinished_bytes"
    """Bytes of all messages that are not complete."""
    INPUT_RATE = "input_rate"
    """Bytes and messages in a second; the peer is read more slowly."""
    MEMORY = "memory"
    """Bytes of what connected ranks have said, or of answers that wait for terminals; the heaviest is closed."""
    MEMORY_OF_RANK = "memory_of_rank"
    """Bytes of what one connected rank and its guard have said; it is closed."""
    ASKS = "asks"
    """Questions to one rank, in a second and open at once."""
    DEEDS = "deeds"
    """What one terminal does at a rank, told to another that looks on; more is counted and summed up."""
    LOGS = "logs"
    """Texts of log points of one job that clients are sent; more are left out and counted."""
    PLACES = "places"
    """Connections of one role."""


class BudgetHits:
    """Counts of reached bounds; they only grow, and there are as many as there are pairs of role and bound."""

    def __init__(self) -> None:
        self._hits: Counter[tuple[Payer, Budget]] = Counter()

    def hit(self, payer: Payer, budget: Budget) -> None:
        """Count that a peer of this role has reached this bound."""
        self._hits[payer, budget] += 1

    def of(self, payer: Payer, budget: Budget) -> int:
        """Return how often peers of this role have reached this bound."""
        return self._hits[payer, budget]

    def __iter__(self) -> Iterator[tuple[Payer, Budget, int]]:
        """Iterate over role, bound and count, in a stable order."""
        found = sorted(self._hits.items(), key=lambda entry: (entry[0][0].value, entry[0][1].value))
        return iter([(payer, budget, count) for (payer, budget), count in found])
