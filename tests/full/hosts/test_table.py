"""The page of figures has a row for each fault that is tried, within the bounds to which the tests hold it."""

from __future__ import annotations

import pytest

from tests.full.hosts.figures import NONE
from tests.full.hosts.table import PAGE, shown
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
