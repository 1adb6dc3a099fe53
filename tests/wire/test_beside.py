"""The forms of commands beside ranks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_wire.beside import CommandEnd, decode_command, decode_output, encode_command, encode_output
from dbg_wire.errors import PeerError
from dbg_wire.limits import MAX_TEXT

# Bytes of an argument that are no UTF-8 come as surrogates of this range alone: a pair of others is one character.
WORD = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"])
    | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF, categories=["Cs"])
)


@given(st.lists(WORD, max_size=5), WORD.filter(bool))
def test_a_command_comes_back_word_for_word(words: list[str], program: str) -> None:
    assert decode_command(encode_command([program, *words])) == [program, *words]


@pytest.mark.parametrize("text", ["", "ls", "[]", "{}", '[""]', '["ls", 1]', '["ls", "a\\u0000b"]', "[" * 10_000])
def test_what_is_no_command_is_refused(text: str) -> None:
    with pytest.raises(PeerError, match="command that can't be read"):
        decode_command(text)


@given(st.text(max_size=3 * MAX_TEXT), st.integers(-64, 255) | st.none(), st.integers(0, 2**40))
def test_an_output_comes_back_in_rows_that_an_answer_may_have(text: str, status: int | None, left_out: int) -> None:
    end = CommandEnd(status=status, left_out=left_out, ended="" if status is not None else "after 10 s")
    rows = encode_output(end, text)
    assert all(len(row) <= MAX_TEXT for row in rows)
    assert decode_output(rows) == (text, end)


def test_rows_of_another_answer_are_told_apart_from_wrong_ones() -> None:
    assert decode_output(()) is None
    assert decode_output(("evidence", "x")) is None
    for rows in (("command",), ("command", "x"), ("command", "[]"), ("command", '{"status": "x"}')):
        with pytest.raises(PeerError, match="end of a command that can't be read"):
            decode_output(rows)
