"""The forms of commands beside ranks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_wire.codec import decode, encode
from dbg_wire.limits import MAX_TEXT
from dbg_wire.messages import Answer, Kind, Sender
from dbg_wire.records.beside import CommandEnd, CommandLine, command_line, output_in, output_rows
from dbg_wire.records.bounds import InvalidMessage
from dbg_wire.records.record import checked

# Bytes of an argument that are no UTF-8 come as surrogates of this range alone: a pair of others is one character.
WORD = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"])
    | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF, categories=["Cs"])
)


@given(st.lists(WORD, max_size=5), WORD.filter(bool))
def test_a_command_comes_back_word_for_word(words: list[str], program: str) -> None:
    command = checked(command_line([program, *words]))
    assert command.arguments == command_line(command.words).arguments
    assert checked(command) == command


@pytest.mark.parametrize("arguments", [(), (b"",), (b"ls", b"a\0b")])
def test_what_no_kernel_starts_is_refused(arguments: tuple[bytes, ...]) -> None:
    with pytest.raises(InvalidMessage):
        CommandLine(arguments=arguments)


@given(st.text(max_size=3 * MAX_TEXT), st.integers(-64, 255) | st.none(), st.integers(0, 2**40))
def test_an_output_comes_back_in_an_answer(text: str, status: int | None, left_out: int) -> None:
    end = CommandEnd(status=status, left_out=left_out, ended="" if status is not None else "after 10 s")
    answer = decode(encode(Answer(request=1, kind=Kind.VALUE, text="", rows=output_rows(end, text))), Sender.AGENT)
    assert isinstance(answer, Answer)
    assert output_in(answer.rows) == (text, end)


def test_another_answer_has_no_output() -> None:
    assert output_in(()) is None
    assert output_in(("a line of a screen",)) is None
