"""What was measured of one fault at one place, and the row that `docs/reliability.md` has of all its places."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

VARIABLE = "FAULT_FIGURES"
"""Environment variable with the file to which the tests append what they measure, one JSON document a line."""

HEADER = (
    "fault",
    "noticed after",
    "keys work again after",
    "keys lost / doubled",
    "output lost",
    "a question meanwhile",
)

NONE = "–"
"""What stands in a cell where there is nothing to measure."""


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


def note(figures: Figures) -> None:
    """Print what was measured, and append it to the file that VARIABLE names."""
    print(f"{figures.where}: {line(row([figures]))}")  # noqa: T201
    if path := os.environ.get(VARIABLE):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(figures)) + "\n")


def noted(path: Path) -> list[Figures]:
    """Return what the tests have appended to a file."""
    return [Figures(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def row(places: Sequence[Figures]) -> list[str]:
    """Return the cells of one fault, in the order of HEADER: the worst of its places, or their sums."""
    noticed = [figures.noticed for figures in places if figures.noticed is not None]
    lines = sum(figures.lines for figures in places)
    questions = sorted({figures.question for figures in places} - {""})
    keys = sum(figures.keys for figures in places)
    return [
        places[0].fault,
        f"{max(noticed):.1f} s" if noticed else NONE,
        f"{max(figures.back for figures in places):.1f} s",
        f"{sum(figures.lost for figures in places)} / {sum(figures.doubled for figures in places)} of {keys}",
        f"{sum(figures.lines_lost for figures in places)} of {lines} lines" if lines else NONE,
        ", or ".join(questions) or NONE,
    ]


def table(measured: Iterable[Figures]) -> list[str]:
    """Return the lines of a Markdown table, with the faults in the order in which they were measured."""
    faults: dict[str, list[Figures]] = {}
    for figures in measured:
        faults.setdefault(figures.fault, []).append(figures)
    return [line(HEADER), "|" + "---|" * len(HEADER), *(line(row(places)) for places in faults.values())]


def line(cells: Sequence[str]) -> str:
    """Return one line of a Markdown table."""
    return f"| {' | '.join(cells)} |"
