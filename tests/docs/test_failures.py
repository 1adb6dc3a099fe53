"""docs/failures.md has each error sentence of the code, says of each what to do, and has no other."""

from __future__ import annotations

import pytest

from tests.docs.failures import SOURCES, UNKNOWN, cell, errors, is_a, rows, wanted


@pytest.mark.parametrize("table", SOURCES)
def test_the_page_has_what_the_code_says_and_nothing_else(table: str) -> None:
    assert len(wanted(table)) > 5
    assert set(rows(table)) == wanted(table), "run `python -m tests.docs.failures`"


def test_the_page_repeats_the_sentence_of_each_error() -> None:
    assert {name: cells[0] for name, cells in rows("errors").items()} == {
        name: cell(sentence) for name, sentence in errors().items()
    }


@pytest.mark.parametrize("table", SOURCES)
def test_each_row_says_what_to_do(table: str) -> None:
    assert [key for key, cells in rows(table).items() if not cells[-1].strip(f"{UNKNOWN}, ")] == []


def test_errors_are_found_by_what_they_are_derived_from() -> None:
    assert is_a("NoRoom", "DbgError")
    assert not is_a("Stage", "DbgError")
