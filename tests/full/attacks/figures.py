"""What others felt during an attack, in figures, and what the broker reports of its own times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

PROMISED_MS = 50.0
"""Milliseconds by which no peer may make another one's key wait longer."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What keys waited for.

    ``key_wait`` is the broker's own figure, in processor time of its loop, to which other processes add nothing: the
    bound of the class of the longest wait. No single wait is hidden there, and it alone is checked. The others are
    milliseconds by the clock from a key to its echo, for the table in the documentation.
    """

    count: int
    median: float
    p99: float
    longest: float
    key_wait: float

    def __str__(self) -> str:
        return (
            f"{self.count} echoes: median {self.median:.2f} ms, p99 {self.p99:.2f} ms, longest {self.longest:.1f} ms; "
            f"in the broker at most {self.key_wait:g} ms of its time"
        )

    @property
    def is_fine(self) -> bool:
        """Whether keys wait no longer than was promised."""
        return self.key_wait <= PROMISED_MS

    def check(self) -> None:
        """Fail if keys wait longer than was promised."""
        assert self.is_fine, str(self)


def figures(echoes: Sequence[float], key_wait: float) -> Figures:
    """Return the figures of echoes in milliseconds."""
    return Figures(
        count=len(echoes),
        median=median(echoes),
        p99=quantiles(echoes, n=100)[98],
        longest=max(echoes),
        key_wait=key_wait,
    )


def classes(page: str, name: str) -> dict[float, int]:
    """Return the cumulated classes of a histogram of ``/metrics``, by their bounds in seconds."""
    found = re.findall(rf'^dbg_broker_{name}_bucket{{le="([^"]+)"}} (\d+)$', page, re.MULTILINE)
    return {float(bound): int(count) for bound, count in found}


def longest_class(before: dict[float, int], after: dict[float, int]) -> float:
    """Return the bound of the highest class that has grown, in milliseconds; 0 if none has."""
    grown = {bound: count - before[bound] for bound, count in after.items()}
    total = max(grown.values())
    return min(bound for bound, count in grown.items() if count == total) * 1000 if total else 0.0
