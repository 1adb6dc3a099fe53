"""How many bytes of answers wait for terminals: gathered for a question that is open, or not read yet. Pure."""

from __future__ import annotations

from dbg_wire import limits

MAX_TERMINAL_BYTES = 128 * limits.MIB
"""Bytes for one terminal, as they lie in memory: 4096 ranks with a PuDB screen of 200 by 50 each come to 97 MB."""

MAX_BYTES = 256 * limits.MIB
"""Bytes for all terminals, twice the bound of one: a login node has other users, too."""


class AnswerBudget:
    """Bytes by terminal. A terminal at its bound gets no more; at the bound of all, the one with most is closed."""

    def __init__(self) -> None:
        self._held: dict[int, int] = {}
        self.size = 0

    def of(self, terminal: int) -> int:
        """Return the bytes that wait for a terminal."""
        return self._held.get(terminal, 0)

    def take(self, terminal: int, size: int) -> bool:
        """Count bytes that are to wait for a terminal; return False if they would be too many."""
        if self.of(terminal) + size > MAX_TERMINAL_BYTES:
            return False
        self._held[terminal] = self.of(terminal) + size
        self.size += size
        return True

    def give_back(self, terminal: int, size: int) -> None:
        """Note that a terminal has read bytes; a terminal that has left is ignored."""
        if terminal in self._held:
            self._held[terminal] -= size
            self.size -= size

    def drop(self, terminal: int) -> None:
        """Forget a terminal that left."""
        self.size -= self._held.pop(terminal, 0)

    def heaviest(self) -> int | None:
        """Return the terminal for which most waits if all together have too much."""
        return max(self._held, key=self.of) if self.size > MAX_BYTES else None
