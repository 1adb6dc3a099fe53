"""What was measured of one fault at one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figures:
    """One fault at one place; times in seconds, None where there is nothing to notice."""

    fault: str
    where: str
    noticed: float | None
    back: float
    keys: int
    lost: int
    doubled: int
    lines: int = 0
    lines_lost: int = 0
    question: str = ""
