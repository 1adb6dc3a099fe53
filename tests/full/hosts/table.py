"""Measure all faults and write the figures into `docs/reliability.md`: ``python -m tests.full.hosts.table [FILE]``.

FILE holds figures of an earlier run of the tests, which ``FAULT_FIGURES=FILE`` has made.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.docs.pages import ROOT
from tests.full.hosts.figures import VARIABLE, Figures, noted, table
from tests.full.hosts.table_of_faults import ALL

PAGE = ROOT / "docs/reliability.md"

BEGIN, END = "<!-- figures: `python -m tests.full.hosts.table` -->", "<!-- end of the figures -->"


def written(text: str, rows: Sequence[str]) -> str:
    """Return a page's text with these rows between its two marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{chr(10).join(rows)}\n\n{END}{after}"


def shown(text: str) -> list[list[str]]:
    """Return the cells of all rows that a page has between its two marks, without the header's."""
    between = text.partition(BEGIN)[2].partition(END)[0]
    rows = [line for line in between.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def measured() -> list[Figures]:
    """Run the tests; return their figures, or exit if one fails."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures"
        tests = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--no-skips", "tests/full/hosts"],
            env={**os.environ, VARIABLE: str(file)},
            cwd=ROOT,
            check=False,
        )
        if tests.returncode:
            sys.exit(tests.returncode)
        return noted(file)


def main() -> None:
    """Write the page; say nothing."""
    figures = noted(Path(sys.argv[1])) if len(sys.argv) > 1 else measured()
    order = {fault.name: number for number, fault in enumerate(ALL)}
    figures.sort(key=lambda one: order[one.fault])
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), table(figures)), encoding="utf-8")


if __name__ == "__main__":
    main()
