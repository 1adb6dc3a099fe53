"""What others felt during an attack, in figures, and what the broker says of its own times."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles

PROMISED_MS = 50.0
"""Milliseconds by which no peer may make another one's key wait longer."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Milliseconds from a key to its echo.

    ``stall`` is the median of the longest echoes of each window of a quarter of a second. A stall that an attack brings
    about comes in each window; a stall of the machine, on which other work runs, comes in few. ``key_wait`` is the
    broker's own figure, in its processor time, to which other processes add nothing: the bound of the class of the
    longest wait. No single wait is hidden there.
    """

    count: int
    median: float
    p99: float
    longest: float
    stall: float
    key_wait: float

    def __str__(self) -> str:
        return (
            f"{self.count} echoes: median {self.median:.2f} ms, p99 {self.p99:.2f} ms, longest {self.longest:.1f} ms; "
            f"half of all windows above {self.stall:.1f} ms; in the broker at most {self.key_wait:g} ms of its time"
        )

    def is_fine(self, quiet: Figures) -> bool:
        """Tell whether keys wait no longer than was promised, beside ``quiet``."""
        return self.key_wait <= PROMISED_MS and self.stall - quiet.stall <= PROMISED_MS

    def check(self, quiet: Figures) -> None:
        """Fail if keys wait longer than was promised, beside ``quiet``."""
        assert self.is_fine(quiet), f"quiet: {quiet}\nattacked: {self}"

    def keep(self, folder: Path, attack: str, quiet: Figures, more: str = "") -> None:
        """Add a line to the figures of this run, of which the table in the documentation is made."""
        folder.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"attack": attack, "quiet": asdict(quiet), "attacked": asdict(self), "more": more})
        with (folder / "attacks.jsonl").open("a") as file:
            file.write(f"{line}\n")


def figures(windows: Sequence[Sequence[float]], key_wait: float) -> Figures:
    """Return the figures of echoes in milliseconds, by windows."""
    echoes = [echo for window in windows for echo in window]
    return Figures(
        count=len(echoes),
        median=median(echoes),
        p99=quantiles(echoes, n=100)[98],
        longest=max(echoes),
        stall=median(max(window) for window in windows),
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
