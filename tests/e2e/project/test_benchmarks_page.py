"""The page of figures agrees with the JSON file of the last run, and each figure is compared with its baseline."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import LAST, ROWS
from benchmarks.check import became_worse
from benchmarks.figures import Figure
from benchmarks.page import PAGE, PLOT, page, write
from tests.docs.pages import ROOT

FIGURES = [Figure("echo", "µs", (50.0, 40.0, 60.0)), Figure("broker", "µs", (150.0, 120.0, 900.0), "echo")]


def row(**changes: Any) -> dict[str, Any]:
    shown = {"name": "key", "title": "a key", "seconds": 1.5, "failed": None, "left_out": None}
    return {**shown, "figures": [figure.document(FIGURES) for figure in FIGURES], **changes}


@pytest.mark.parametrize(
    ("before", "now", "lines"),
    [
        (Figure("time", "ms", (10.0, 9.0, 11.0)), Figure("time", "ms", (14.0, 13.0, 15.0)), 1),
        (Figure("time", "ms", (10.0, 9.0, 11.0)), Figure("time", "ms", (13.0, 12.0, 14.0)), 0),
        (Figure("time", "ms", (10.0, 9.0, 30.0)), Figure("time", "ms", (14.0, 13.0, 15.0)), 0),
        (Figure("rate", "MiB/s", (10.0, 9.0, 11.0)), Figure("rate", "MiB/s", (7.0, 6.0, 8.0)), 1),
        (Figure("rate", "MiB/s", (10.0, 9.0, 11.0)), Figure("rate", "MiB/s", (14.0, 13.0, 15.0)), 0),
        (Figure("lost", "attempts", (0.0,)), Figure("lost", "attempts", (2.0,)), 1),
        (Figure("other", "ms", (1.0,)), Figure("time", "ms", (9.0,)), 0),
    ],
)
def test_a_figure_is_worse_if_it_differs_by_a_third_beyond_its_rounds(before: Figure, now: Figure, lines: int) -> None:
    published, run = ({"rows": [row(figures=[figure.document([figure])])]} for figure in (before, now))
    assert len(list(became_worse(published, run))) == lines


def test_the_page_shows_the_last_run(tmp_path: Path) -> None:
    document = json.loads(LAST.read_text())
    assert page(PAGE.read_text(), document) == PAGE.read_text()
    again, drawn = tmp_path / "performance.md", tmp_path / "performance.svg"
    again.write_text(PAGE.read_text())
    write(document, again, drawn)
    assert (again.read_text(), drawn.read_text()) == (PAGE.read_text(), PLOT.read_text())
    assert {one["name"] for one in document["rows"]} == set(ROWS)


def test_each_row_that_a_page_names_exists() -> None:
    text = (ROOT / "docs/cost.md").read_text().replace("\n", " ")
    named = set(re.findall(r"row `([\w-]+)`", text))
    assert len(named) > 4
    assert named <= set(ROWS)
