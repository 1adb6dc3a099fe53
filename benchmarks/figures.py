"""A figure: what was measured in several rounds, and with which other figure of the same row it is compared."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity; ``against`` names the figure of the same row that is its baseline."""

    name: str
    unit: str
    values: tuple[float, ...]
    against: str | None = None

    def document(self, row: Sequence[Figure]) -> dict[str, Any]:
        """Return the figure for the JSON file; ``row`` are all figures of its row."""
        median = statistics.median(self.values)
        baseline = [other for other in row if other.name == self.against]
        if self.against is not None and not baseline:
            raise ValueError(f"{self.name} is compared with {self.against!r}, which its row has not measured")
        below = statistics.median(baseline[0].values) if baseline else 0.0
        return {
            "name": self.name,
            "unit": self.unit,
            "median": rounded(median),
            "least": rounded(min(self.values)),
            "most": rounded(max(self.values)),
            "rounds": len(self.values),
            "against": self.against,
            "ratio": rounded(median / below) if below else None,
        }


def rounded(value: float) -> float:
    """Return a value with four digits that count."""
    return float(f"{value:.4g}")


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
