from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbg_client.terminal.line_prompt import MAX_PARTIAL, Lines


def test_whole_lines_come_out_and_the_rest_waits() -> None:
    lines = Lines()

    assert lines.feed(b"one\ntw") == "one\n"
    assert lines.shown == "tw"
    assert lines.feed(b"o\n") == "two\n"
    assert lines.shown == ""


def test_colours_and_tabs_pass_and_nothing_else_does() -> None:
    hostile = (
        b"\x1b[31mred\x1b[0m\ta\x07\x08\x1b[2J\x1b[6n\x1b]0;title\x07\x1bP+q\x1b\\\xc2\x9b6n\x00b\x1b[?25h\x1b[>4m\n"
    )

    assert Lines().feed(hostile) == "\x1b[31mred\x1b[0m\ta6nb\n"


def test_what_is_not_utf8_is_shown_as_such() -> None:
    assert Lines().feed(b"a\xff\xc3\n") == "a\ufffd\ufffd\n"


def test_a_progress_bar_is_what_it_said_last() -> None:
    lines = Lines()

    assert lines.feed(b" 1 %\r50 %") == ""
    assert lines.shown == "50 %"
    assert lines.feed(b"\r100 %\r\nnext\r\n") == "100 %\nnext\n"


def test_a_line_without_an_end_is_broken() -> None:
    lines = Lines()

    assert lines.feed(b"x" * (MAX_PARTIAL + 1)) == "x" * (MAX_PARTIAL + 1) + "\n"
    assert lines.shown == ""


def test_after_a_gap_the_line_before_it_ends() -> None:
    lines = Lines()
    lines.feed(b"before\x1b[3")

    assert lines.cut() == "before\n"
    assert lines.feed(b"1m after\n") == "1m after\n"
    assert lines.cut() == ""


@given(st.binary(max_size=80), st.integers(1, 9))
def test_it_does_not_matter_how_the_output_is_cut(data: bytes, size: int) -> None:
    data += b"\x18\n"
    parts = Lines()
    whole = Lines().feed(data)

    assert "".join(parts.feed(data[at : at + size]) for at in range(0, len(data), size)) == whole
    assert all(char.isprintable() or char in "\n\t\r\x1b" or ord(char) > 0x9F for char in whole)
