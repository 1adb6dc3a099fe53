"""How often each rank is asked, so that questions of many terminals leave it time for its own work. Pure."""

from __future__ import annotations

ASKS_PER_SECOND = 200
"""Questions to one rank in a second, and as many at once: a person's tools ask some ten for each step."""

MAX_OPEN_AT_RANK = 64
"""Questions that wait for one rank at once: each keeps a slot of the broker, and the rank answers one after another."""


class AskRates:
    """For each rank the questions that it may still be asked, and when that was so. The length is their number."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self._left)

    def refusal(self, key: str, open_already: int, now: float) -> str | None:
        """Count a question to a rank; return a sentence that says why the rank is not asked, None if it is."""
        if open_already > MAX_OPEN_AT_RANK:
            return f"{MAX_OPEN_AT_RANK} questions wait for this rank already; ask again when they are answered"
        left, at = self._left.get(key, (float(ASKS_PER_SECOND), now))
        left = min(float(ASKS_PER_SECOND), left + (now - at) * ASKS_PER_SECOND)
        if left < 1:
            return f"this rank has been asked more than {ASKS_PER_SECOND} times in a second; ask again in a moment"
        self._left[key] = left - 1, now
        return None

    def forget(self, key: str) -> None:
        """Forget a rank that is not connected any more; an unknown one is no error."""
        self._left.pop(key, None)
