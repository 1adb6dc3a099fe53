"""A line is found again by its text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.run.plan import find_again, text_of

LINES = st.lists(st.sampled_from(["", "x = 1", "  x = 1", "y = 2", "z()", "\tz()"]), max_size=8)


def test_the_only_line_with_this_text_is_meant_wherever_it_went() -> None:
    assert find_again(["import a", "", "x = 1", "    f()"], 2, "f()") == 4
    assert find_again(["f()"], 7, "f()") == 1


def test_a_line_that_still_fits_is_not_left() -> None:
    assert find_again(["f()", "g()", "  f()"], 3, "f()") == 3


def test_what_may_be_several_lines_or_none_stays_where_it_was() -> None:
    assert find_again(["f()", "g()", "f()"], 2, "f()") == 2
    assert find_again(["g()"], 1, "f()") == 1
    assert find_again(["g()"], 1, None) == 1


@given(LINES, st.integers(0, 9), LINES)
def test_a_line_whose_text_is_there_once_is_found_after_any_edit(before: list[str], at: int, after: list[str]) -> None:
    lines = [*before, "the_stop()", *after]
    assert find_again(lines, at, text_of(["  the_stop()"], 1)) == len(before) + 1


@given(LINES, st.integers(-2, 10), st.none() | st.sampled_from(["x = 1", "y = 2", "z()", "w"]))
def test_the_answer_has_the_text_or_is_the_number_asked_with(lines: list[str], number: int, text: str | None) -> None:
    found = find_again(lines, number, text)
    assert found == number or (text is not None and text_of(lines, found) == text)


@given(LINES, st.integers(-2, 10))
def test_a_file_that_was_not_edited_has_its_lines_where_they_were(lines: list[str], number: int) -> None:
    assert find_again(lines, number, text_of(lines, number)) == number


@given(LINES, st.integers(-2, 10))
def test_a_line_that_says_nothing_has_no_text(lines: list[str], number: int) -> None:
    text = text_of(lines, number)
    assert text is None or (text == lines[number - 1].strip() != "")
    if not 1 <= number <= len(lines):
        assert text is None
