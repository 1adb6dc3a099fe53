from __future__ import annotations

from dbg_wire.command_line.completion import nearest


def test_the_word_that_is_most_like_it_is_found_and_none_where_nothing_is() -> None:
    assert nearest("wher", ("where", "here", "list")) == "where"
    assert nearest("zebra", ("where", "list")) is None
    assert nearest("", ()) is None
