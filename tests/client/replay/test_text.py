"""The text of a recording, without what moves a terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbg_client.replay.text import PlainText, clock
from tests.client.replay.tapes import screen


def test_lines_stay_and_colours_go() -> None:
    assert PlainText().feed("> a.py(7)\r\n\x1b[31m-> loss\x1b[0m = 1\r\n(Pdb) ") == "> a.py(7)\n-> loss = 1\n(Pdb) "


def test_rows_of_a_screen_are_lines() -> None:
    assert PlainText().feed("\x1b[1;1HPuDB   \x1b[2;1H  def \x1b[7mf\x1b[0m():\x1b[3;1H") == "\nPuDB\n  def f():\n"
    assert PlainText().feed(screen("only")).strip() == "only"


@given(st.lists(st.text()))
def test_nothing_that_moves_a_terminal_is_left(pieces: list[str]) -> None:
    plain = PlainText()
    text = "".join(map(plain.feed, pieces))
    assert not any((ord(char) < 32 and char not in "\n\t") or 0x7F <= ord(char) < 0xA0 for char in text)


def test_times_are_written_as_players_do() -> None:
    assert [clock(seconds) for seconds in (0, 9.9, 62, 3723)] == ["0:00", "0:09", "1:02", "1:02:03"]
