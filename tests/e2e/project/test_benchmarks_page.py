"""The page of figures is what the last run's JSON file says, and each figure is compared with its baseline."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.__main__ import LAST, ROWS, measured
from benchmarks.bench import Bench, Row, Unmeasurable
from benchmarks.figures import Figure
from benchmarks.page import PAGE, PLOT, lines_of, page, write
from tests.docs.pages import ROOT

FIGURES = [Figure("echo", "µs", (50.0, 40.0, 60.0)), Figure("broker", "µs", (150.0, 120.0, 900.0), "echo")]


def row(**changes: Any) -> dict[str, Any]:
    shown = {"name": "key", "title": "a key", "seconds": 1.5, "failed": None, "left_out": None}
    return {**shown, "figures": [figure.document(FIGURES) for figure in FIGURES], **changes}


def test_a_figure_is_its_median_its_spread_and_its_ratio_to_the_baseline() -> None:
    document = FIGURES[1].document(FIGURES)
    assert (document["median"], document["least"], document["most"], document["ratio"]) == (150, 120, 900, 3)
    assert FIGURES[0].document(FIGURES)["ratio"] is None
    assert lines_of(row())[1:] == ["   echo    50.0 µs  40.0 to 60.0", "   broker   150 µs    120 to 900  × 3.00"]


def test_a_row_that_fails_says_so_without_its_folder_and_one_that_cannot_be_measured_is_left_out() -> None:
    def fail(bench: Bench) -> list[Figure]:
        raise OSError(f"no room in {bench.folder}\nnor elsewhere")

    def leave_out(bench: Bench) -> list[Figure]:
        raise Unmeasurable("no torch")

    assert lines_of(measured(Row("a", "b", fail)))[1] == "   failed: OSError: no room in …"
    assert lines_of(measured(Row("a", "b", leave_out)))[1] == "   left out: no torch"


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
