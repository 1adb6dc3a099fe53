"""Whether what was counted again and again has grown. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

WARM_UP = 0.4
"""The share of the samples that don't count: caches fill, and allocators take what they will keep."""

ALLOWED: Mapping[str, tuple[float, int]] = {
    "memory": (0.04, 3 * 1024),
    "objects": (0.03, 1500),
    "tasks": (0.0, 1),
    "threads": (0.0, 1),
    "descriptors": (0.0, 2),
    "zombies": (0.0, 0),
    "files": (0.0, 1),
}
"""How much each number may grow, as a share and in itself: the broker lists ended ranks for an hour."""


@dataclass(frozen=True, slots=True)
class Grown:
    """One number of one process, in the middle of its first and of its last samples."""

    process: str
    what: str
    before: float
    after: float

    @property
    def is_leak(self) -> bool:
        """Tell whether it grew by more than is allowed."""
        share, most = ALLOWED[self.what]
        return self.after - self.before > max(share * self.before, most)


def growth(samples: Sequence[Mapping[str, Mapping[str, int]]]) -> list[Grown]:
    """Return each number of each process, before and after. At least five samples are needed."""
    counted = samples[int(len(samples) * WARM_UP) :]
    if len(counted) < 3:
        raise ValueError(f"{len(samples)} samples tell nothing; let it run for longer")
    third = max(1, len(counted) // 3)
    return [
        Grown(process, what, _middle(counted[:third], process, what), _middle(counted[-third:], process, what))
        for process, numbers in counted[0].items()
        for what in numbers
    ]


def _middle(samples: Sequence[Mapping[str, Mapping[str, int]]], process: str, what: str) -> float:
    return median(sample[process][what] for sample in samples)


def table(grown: Sequence[Grown]) -> str:
    """Return the table of all numbers, leaks marked."""
    lines = [f"{'process':10} {'':12} {'before':>10} {'after':>10}"]
    for one in grown:
        mark = "  GROWS" if one.is_leak else ""
        lines.append(f"{one.process:10} {one.what:12} {one.before:10.0f} {one.after:10.0f}{mark}")
    return "\n".join(lines)
