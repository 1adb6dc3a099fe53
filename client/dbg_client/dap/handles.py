"""Numbers for what an IDE may ask about later: frames and values of a rank's present stop. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

MAX_HANDLES = 100_000
"""Numbers of one table; beyond it those of the rank that was asked about longest ago are forgotten."""


class Handles(Generic[T]):
    """Numbers that are valid while an owner stays at one version; a number is never used twice."""

    def __init__(self, most: int = MAX_HANDLES) -> None:
        self._most = most
        self._next = 1
        self._things: dict[int, tuple[str, T]] = {}
        self._owned: dict[str, tuple[int, dict[T, int]]] = {}

    def __len__(self) -> int:
        return len(self._things)

    def number(self, owner: str, version: int, thing: T) -> int:
        """Return the number of something, the same one each time; those of the owner's other versions are forgotten."""
        known = self._owned.pop(owner, None)
        if known is not None and known[0] != version:
            self._drop(known[1])
            known = None
        numbers = known[1] if known is not None else {}
        # At the end again: the owner at the beginning is the one that was asked about longest ago.
        self._owned[owner] = version, numbers
        if thing not in numbers:
            self._make_room(owner)
            numbers[thing] = self._next
            self._things[self._next] = owner, thing
            self._next += 1
        return numbers[thing]

    def find(self, number: object) -> tuple[str, int, T] | None:
        """Return the owner, its version and what the number stands for; None for a number that is forgotten."""
        found = self._things.get(number) if isinstance(number, int) else None
        return (found[0], self._owned[found[0]][0], found[1]) if found is not None else None

    def forget(self, owner: str) -> None:
        """Forget all numbers of an owner."""
        known = self._owned.pop(owner, None)
        if known is not None:
            self._drop(known[1])

    def _drop(self, numbers: dict[T, int]) -> None:
        for number in numbers.values():
            del self._things[number]

    def _make_room(self, owner: str) -> None:
        if len(self._things) < self._most:
            return
        oldest = next(iter(self._owned))
        if oldest != owner:
            self.forget(oldest)
        else:
            version, numbers = self._owned[owner]
            self._drop(numbers)
            numbers.clear()
            self._owned[owner] = version, numbers
