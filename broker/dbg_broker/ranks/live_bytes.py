"""How much memory what connected ranks have said takes, and whose goes first if all of it is too much. Pure."""

from __future__ import annotations

MEMORY_OF_TEXT = 4
"""Bytes of memory for each character of a message that is kept: short texts take more memory than they are long."""

MAX_RANK_BYTES = 4 * 1024 * 1024
"""Bytes for one connected rank: as many breakpoints as a rank may report, with the longest paths and conditions, take
half of it, and a usual rank a hundredth."""

MAX_LIVE_BYTES = 512 * 1024 * 1024
"""Bytes for all connected ranks: 20,000 of them with a report, breakpoints and a stack of 6 KiB together fit."""


class LiveBytes:
    """Bytes of each connected rank, by what it said; ``size`` are those of all."""

    def __init__(self) -> None:
        self._said: dict[str, dict[str, int]] = {}
        self.size = 0

    def note(self, key: str, kind: str, length: int) -> bool:
        """Note that a rank's last message of a kind has ``length`` characters; the one before is not kept.

        Return whether it takes more than that one.
        """
        said = self._said.setdefault(key, {})
        more = length * MEMORY_OF_TEXT - said.get(kind, 0)
        if more:
            self.size += more
            said[kind] = length * MEMORY_OF_TEXT
        return more > 0

    def forget(self, key: str) -> None:
        """Forget a rank that is not connected any more; an unknown one is no error."""
        self.size -= sum(self._said.pop(key, {}).values())

    def is_too_much(self, key: str) -> bool:
        """Tell whether a rank alone takes more than one may."""
        return self._of(key) > MAX_RANK_BYTES

    def heaviest(self) -> str | None:
        """Return the rank that takes most, if all together take too much."""
        if self.size <= MAX_LIVE_BYTES:
            return None
        return max(self._said, key=self._of)

    def _of(self, key: str) -> int:
        return sum(self._said.get(key, {}).values())
