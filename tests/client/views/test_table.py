from __future__ import annotations

import pytest

from dbg_client.views.table import text_width


@pytest.mark.parametrize(
    ("text", "columns"),
    [("", 0), ("rank 5", 6), ("日本", 4), ("e\u0301", 1), ("\N{BLACK TELEPHONE}", 2), ("…", 2)],
)
def test_no_character_is_taken_for_narrower_than_a_terminal_may_draw_it(text: str, columns: int) -> None:
    assert text_width(text) == columns
