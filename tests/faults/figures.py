"""What was measured of one fault at one place, and the row that `docs/reliability.md` has of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

VARIABLE = "DBG_FAULT_FIGURES"
"""Environment variable with the file to which the tests append what they measure, one JSON document a line."""

HEADER = (
    "fault",
    "where",
    "noticed after",
    "keys work again after",
    "keys lost / doubled",
    "output lost",
    "a question",
)


@dataclass(frozen=True)
class Figures:
    """One fault at one place; times in seconds, None where there is nothing to notice or to ask."""

    fault: str
    where: str
    noticed: float | None
    back: float
    keys: int
    lost: int
    doubled: int
    lines: int
    lines_lost: int
    question: str

    def row(self) -> list[str]:
        """Return the cells of the table, in the order of HEADER."""
        return [
            self.fault,
            self.where,
            "-" if self.noticed is None else f"{self.noticed:.1f} s",
            f"{self.back:.1f} s",
            f"{self.lost} / {self.doubled} of {self.keys}",
            f"{self.lines_lost} of {self.lines} lines" if self.lines else "-",
            self.question or "-",
        ]


def note(figures: Figures) -> None:
    """Print what was measured, and append it to the file that VARIABLE names."""
    print(" | ".join(figures.row()))  # noqa: T201
    if path := os.environ.get(VARIABLE):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(figures)) + "\n")


def noted(path: Path) -> list[Figures]:
    """Return what the tests have appended to a file."""
    return [Figures(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def table(rows: Iterable[Figures]) -> list[str]:
    """Return the lines of a Markdown table."""
    return [line(HEADER), "|" + "---|" * len(HEADER), *(line(figures.row()) for figures in rows)]


def line(cells: Sequence[str]) -> str:
    """Return one line of a Markdown table."""
    return f"| {' | '.join(cells)} |"
