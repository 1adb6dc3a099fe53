"""The page of figures is what the last run's JSON file says, and each figure is compared with its baseline."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import LAST, ROWS, in_order, left_out, measured
from benchmarks.bench import Bench, Row, Unmeasurable
from benchmarks.check import became_worse
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


def test_rows_without_time_are_the_first_of_the_next_run() -> None:
    first, *others = list(ROWS)
    assert in_order({}) == [first, *others]
    before = {"rows": [{"name": name, "begun": True} for name in (first, *others[:-2])]}
    before["rows"] += [left_out(ROWS[name]) for name in others[-2:]]
    assert in_order(before) == [*others[-2:], first, *others[:-2]]


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
def test_a_figure_is_worse_by_a_third_and_beyond_its_rounds(before: Figure, now: Figure, lines: int) -> None:
    published, run = ({"rows": [row(figures=[figure.document([figure])])]} for figure in (before, now))
    assert len(list(became_worse(published, run))) == lines


def test_a_slower_machine_is_no_worse_where_a_baseline_tells() -> None:
    slower = [Figure(one.name, one.unit, tuple(2 * value for value in one.values), one.against) for one in FIGURES]
    now = row(figures=[slower[1].document(slower)])
    assert list(became_worse({"rows": [row()]}, {"rows": [now]})) == []
    assert len(list(became_worse({"rows": [row()]}, {"rows": [row(failed="OSError: no room", figures=[])]}))) == 1


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
