"""Long answers are cut at lines, and every line of them can be had."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.faces.mcp.rest import MAX_CHARACTERS, MAX_KEPT, MAX_LINES, Rests
from dbg_wire.errors import BadInput

REST = re.compile(r"\[(\d+) more lines: call `more` with answer='(rest-\d+)' and from=(\d+)\]")


@given(st.lists(st.text("abc ", max_size=300), min_size=1, max_size=400))
def test_the_pieces_are_the_whole_answer_and_each_is_short(lines: list[str]) -> None:
    rests = Rests()
    text = "\n".join(lines).rstrip("\n")
    shown = rests.cut(text)
    got: list[str] = []
    while True:
        *piece, last = shown.split("\n")
        more = REST.fullmatch(last)
        got += piece if more else [*piece, last]
        assert len(piece) <= MAX_LINES
        if more is None:
            break
        shown = rests.more(more[2], int(more[3]))
    assert "\n".join(got) == text


def test_text_of_a_rank_can_not_act_and_one_long_line_is_cut() -> None:
    assert Rests().cut("a\x1b[2J\nb") == "a\\x1b[2J\nb"
    assert len(Rests().cut("x" * (2 * MAX_CHARACTERS)).split("\n")[0]) == MAX_CHARACTERS


def test_what_is_no_longer_kept_says_so() -> None:
    rests = Rests()
    for _ in range(MAX_KEPT + 1):
        rests.cut("a\n" * (MAX_LINES + 1) + "b")
    with pytest.raises(BadInput):
        rests.more("rest-1", 0)
    with pytest.raises(BadInput, match="has no line 1000"):
        rests.more(f"rest-{MAX_KEPT + 1}", 1000)
