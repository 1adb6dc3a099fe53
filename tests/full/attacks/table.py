"""The table of what others feel, in ``docs/security.md``; ``python -m tests.full.attacks.table`` writes it.

The figures are those that the tests of this folder leave in ``logs/attacks.jsonl``. An attack that was not run keeps
its row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/security.md"
FIGURES = ROOT / "logs/attacks.jsonl"

BEGIN, END = "<!-- what others feel -->", "<!-- end of what others feel -->"
HEAD = (
    "| while somebody sends | key to echo, median | 99 of 100 within | in the broker at most "
    "| a rank and a driver get in |\n"
    "|---|---|---|---|---|\n"
)


def rows(figures: Iterable[str]) -> dict[str, str]:
    """Return the rows by their attacks, given lines of figures."""
    found = {}
    for line in figures:
        told = json.loads(line)
        felt, name = told["attacked"], told["attack"]
        cells = (f"{felt['median']:.1f} ms", f"{felt['p99']:.0f} ms", f"{felt['key_wait']:g} ms", told["more"])
        found[name] = f"| {name} | {' | '.join(cells)} |"
    return found


def with_rows(page: str, new: dict[str, str]) -> str:
    """Return a page with these rows in its table; those of other attacks stay."""
    before, _, rest = page.partition(f"{BEGIN}\n")
    table, _, after = rest.partition(END)
    old = {line.split(" | ")[0].removeprefix("| "): line for line in table.splitlines()[2:]}
    return before + f"{BEGIN}\n{HEAD}" + "".join(f"{row}\n" for row in {**old, **new}.values()) + END + after


if __name__ == "__main__":
    PAGE.write_text(with_rows(PAGE.read_text(), rows(FIGURES.read_text().splitlines())))
