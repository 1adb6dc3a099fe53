"""Compare the last run with the published one: ``python -m benchmarks.check``. Exit status 1 if a figure became worse.

A figure is compared by its ratio to its baseline, which other work of the machine changes least, or by its median if it
has no baseline. It became worse if it is worse by more than a third and if the rounds of the two runs don't overlap.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.__main__ import JSON_FILE, LAST

WORSE = 4 / 3
"""How many times as much a figure may be: two runs on one busy machine differ by less."""

MORE_IS_BETTER = frozenset({"MiB/s", "handshakes"})
"""Units of what is to be large."""

Document = Mapping[str, Any]


def became_worse(published: Document, measured: Document) -> Iterator[str]:
    """Yield a line for each figure that became worse, and for each row that has no figures any more."""
    before = {row["name"]: row for row in published["rows"]}
    for row in measured["rows"]:
        known = before.get(row["name"])
        if known is None or (row["left_out"] and not row["failed"]):
            continue
        if row["failed"]:
            yield f"{row['name']}: failed: {row['failed']}"
        figures = {figure["name"]: figure for figure in known["figures"]}
        for figure in row["figures"]:
            if figure["name"] in figures:
                yield from _line(row["name"], figures[figure["name"]], figure)


def _line(row: str, before: Document, now: Document) -> Iterator[str]:
    has_ratios = before["ratio"] is not None and now["ratio"] is not None
    old, new = (figure["ratio" if has_ratios else "median"] for figure in (before, now))
    is_better_large = now["unit"] in MORE_IS_BETTER
    factor = _times(old, new) if is_better_large else _times(new, old)
    overlap = now["most"] >= before["least"] if is_better_large else now["least"] <= before["most"]
    if factor > WORSE and not overlap:
        kind = "× its baseline" if has_ratios else now["unit"]
        yield f"{row}: {now['name']}: {old:g} before, {new:g} now ({kind})"


def _times(value: float, base: float) -> float:
    """Return how many times as large one value is as another one that may be 0."""
    return value / base if base else math.inf if value else 1.0


def main() -> int:
    """Compare, and print what became worse."""
    published, measured = json.loads(LAST.read_text()), json.loads(JSON_FILE.read_text())
    lines = list(became_worse(published, measured))
    skipped = [row["name"] for row in measured["rows"] if row["left_out"]]
    print("\n".join(lines))
    rest = f"; not measured: {', '.join(skipped)}" if skipped else ""
    print(f"{len(lines)} figures became worse by more than a third since {published['date']}{rest}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
