"""How many places for ranks each token and each address has, so that neither takes all of them. Pure.

The home's own token is the user's, and its ranks may take every place that their addresses have. A token for one job,
or with a name, is in the hands of others. An address may be a NAT for several jobs, so its share is nearly all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

TOKEN_SHARE = 0.75
"""Part of the places for ranks that one token for a job, or with a name, may have; others find room."""

ADDRESS_SHARE = 0.875
"""Part of the places for ranks that one address may have."""

FEW = 64
"""Places that a token and an address may have in any case: the ranks of one job, however few files a host allows."""


class RankPlaces:
    """The rank connections by token and by address, of at most ``places``."""

    def __init__(self, places: int) -> None:
        self._of_token = max(FEW, int(places * TOKEN_SHARE))
        self._of_address = max(FEW, int(places * ADDRESS_SHARE))
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
