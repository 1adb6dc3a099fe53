from __future__ import annotations

import pytest

from dbg_client.actions.streams import has_cursor


@pytest.mark.parametrize(("term", "moves"), [("xterm-256color", True), ("linux", True), ("dumb", False), ("", False)])
def test_a_cursor_is_what_term_says(term: str, moves: bool) -> None:
    assert has_cursor({"TERM": term}) is moves
    assert not has_cursor({})
