from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.formatted_text import fragment_list_to_text

from dbg_client.terminal.pager import PageText, wrapped
from dbg_client.views.table import text_width


def page(count: int, height: int = 10) -> PageText:
    text = PageText("".join(f"line {number}\n" for number in range(count)))
    text.measure(height, 40)
    return text


@given(st.text(st.characters(categories=["L", "N", "P", "Zs"]), max_size=200), st.integers(2, 30))
def test_a_wrapped_text_is_all_there_and_fits(text: str, columns: int) -> None:
    rows = [fragment_list_to_text(row) for row in wrapped(text, columns)]

    assert "".join(rows) == text
    assert all(text_width(row) <= columns for row in rows)


def test_colours_stay_and_lines_stay_lines() -> None:
    rows = wrapped("a\x1b[31mbc\x1b[0m\nd\n", 2)

    assert [fragment_list_to_text(row) for row in rows] == ["ab", "c", "d"]
    assert [bool(re.search("red", fragment[0])) for row in rows for fragment in row] == [False, True, True, False]


def test_the_part_in_sight_stops_at_the_ends() -> None:
    text = page(25)
    for rows, top, end in ((-3, 0, 10), (10, 10, 20), (10, 15, 25), (99, 15, 25), (-1, 14, 24), (-99, 0, 10)):
        text.move(rows)
        assert (text.top, text.end) == (top, end)
    assert page(10).fits
    assert not page(11).fits


def test_a_window_that_grows_shows_more() -> None:
    text = page(25)
    text.move(99)
    text.measure(20, 40)

    assert (text.top, text.end) == (5, 25)


def test_a_search_goes_round_in_both_directions() -> None:
    text = page(50)

    assert text.seek("LINE 1")  # line 1 and lines 10 to 19
    assert text.top == 1
    tops = []
    for step in (1, 1, -1, -1, -1):
        assert text.next_match(step)
        tops.append(text.top)
    assert tops == [10, 11, 10, 1, 19]
    assert not text.seek("nowhere")
    assert text.top == 19


def test_a_search_finds_every_row_of_the_last_page() -> None:
    text = page(25)

    assert text.seek("2")
    found = [text.top]
    for _ in range(7):
        text.next_match(1)
        found.append(text.top)
    assert found == [2, 12, 15, 15, 15, 15, 15, 2]


def test_what_is_sought_is_marked() -> None:
    text = page(3)
    text.seek("ine 1")

    marked = "".join(fragment[1] for fragment in text.shown() if "reverse" in fragment[0])

    assert marked == "ine 1"
