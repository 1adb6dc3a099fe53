"""The page of figures has a row for each fault that is tried, within the bounds to which the tests hold it."""

from __future__ import annotations

import pytest

from tests.full.hosts.figures import HEADER, NONE, Figures, row, table
from tests.full.hosts.table import BEGIN, END, PAGE, shown, written
from tests.full.hosts.table_of_faults import ALL, Fault

BY_NAME = {cells[0]: cells for cells in shown(PAGE.read_text(encoding="utf-8"))}


def seconds_of(cell: str) -> float | None:
    """Return the seconds that a cell tells; None if it has none."""
    return None if cell == NONE else float(cell.removesuffix(" s"))


def test_each_fault_has_a_row_and_no_other_has() -> None:
    assert list(BY_NAME) == [fault.name for fault in ALL]


@pytest.mark.parametrize("fault", ALL, ids=lambda fault: fault.name)
def test_what_the_page_says_is_within_the_bounds(fault: Fault) -> None:
    _, noticed, back, keys, output, _ = BY_NAME[fault.name]
    assert keys.startswith("0 / 0 of ")
    assert output == NONE or output.startswith("0 of ")
    assert (seconds_of(noticed) is None) == (fault.noticed is None)
    assert (seconds_of(noticed) or 0.0) <= (fault.noticed or 0.0)
    assert (seconds_of(back) or 0.0) <= fault.back


def test_a_row_is_the_worst_of_all_places() -> None:
    places = [
        Figures("a fault", "rank", 1.0, 2.0, keys=10, lost=0, doubled=1, lines=5, lines_lost=2, question="answered"),
        Figures("a fault", "both", None, 3.0, keys=10, lost=1, doubled=0, lines=6, lines_lost=0, question="exit 6"),
    ]
    assert row(places) == ["a fault", "1.0 s", "3.0 s", "1 / 1 of 20", "2 of 11 lines", "answered, or exit 6"]
    page = written(f"before\n{BEGIN}old{END}\nafter\n", table(places))
    assert page.startswith("before\n")
    assert page.endswith("\nafter\n")
    assert shown(page) == [row(places)]
    assert len(shown(page)[0]) == len(HEADER)
