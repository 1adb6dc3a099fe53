from __future__ import annotations

import pytest

from dbg_client.views.table import table, text_width


@pytest.mark.parametrize(
    ("text", "columns"),
    [("", 0), ("rank 5", 6), ("日本", 4), ("e\u0301", 1), ("\N{BLACK TELEPHONE}", 2), ("…", 2)],
)
def test_no_character_is_taken_for_narrower_than_a_terminal_may_draw_it(text: str, columns: int) -> None:
    assert text_width(text) == columns


def test_columns_are_as_wide_as_their_widest_text_and_empty_ones_are_left_out() -> None:
    rows = [("a", "", "x"), ("漢字", "", "y")]

    assert table(("ONE", "TWO", "THREE"), rows) == ["ONE   THREE", "a     x", "漢字  y"]


def test_a_colour_takes_no_column() -> None:
    painted = table(("ONE", "TWO"), [("a", "x"), ("bb", "y")], lambda row, column, text: f"<{row}{column}{text}>")

    assert painted == ["ONE  TWO", "<00a>    <01x>", "<10bb>   <11y>"]
