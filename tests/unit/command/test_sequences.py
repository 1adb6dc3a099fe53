from __future__ import annotations

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_command.sequences import MAX_SEQUENCE, QueryFilter

CHARACTERS = [b"a", b"~", b"\r\n", b"\t", b"\x07", b"\x0e", b"\x0f", "é".encode(), "日".encode(), "🙂".encode()]
DRAWING = [
    b"\x1b[H", b"\x1b[12;40H", b"\x1b[2J", b"\x1b[K", b"\x1b[1;38;5;208m", b"\x1b[38:2::1:2:3m", b"\x1b[?25l",
    b"\x1b[?12;25h", b"\x1b[?1049h", b"\x1b[?1000h", b"\x1b[?2004l", b"\x1b[4h", b"\x1b[!p", b"\x1b[1;29r",
    b"\x1b[3L", b"\x1b[5X", b"\x1b[7S", b"\x1b(B", b"\x1b(0", b"\x1b)0", b"\x1b7", b"\x1b8", b"\x1b=", b"\x1bM",
    b"\x1b]8;id=1;https://example.org/a?b=c;d\x1b\\", b"\x1b]8;;HTTP://example.org\x07", b"\x1b]8;;\x07",
]  # fmt: skip
QUERIES = [
    b"\x05", b"\x1b[c", b"\x1b[0c", b"\x1b[>c", b"\x1b[=0c", b"\x1b[5n", b"\x1b[6n", b"\x1b[?6n", b"\x1b[?2026$p",
    b"\x1b[4$p", b"\x1b[>0q", b"\x1b[?u", b"\x1b[?4m", b"\x1b[x", b"\x1b[1;1;1;1;9;9*y", b"\x1b[1$w",
    b"\x1b[?1;1;0S", b"\x1b[#R", *(b"\x1b[%dt" % number for number in (11, 13, 14, 15, 16, 18, 19, 20, 21)),
    b"\x1bZ", b"\x1b]4;1;?\x07", b"\x1b]10;?\x1b\\", b"\x1b]11;?\x07", b"\x1b]52;c;?\x07", b"\x1bP$qm\x1b\\",
    b"\x1bP+q544e\x1b\\",
]  # fmt: skip
LASTING = [
    b"\x1b]52;c;cm0gLXJm\x07", b"\x1b]0;title\x07", b"\x1b]2;title\x1b\\", b"\x1b]1337;File=:AAAA\x07",
    b"\x1b]8;;https://example.org/\xc3\xa9\x07", b"\x1b]8;;file:///etc/passwd\x07", b"\x1b]8;id=1;ssh://host\x1b\\",
    b"\x1b]8;;vscode://file/x\x07", b"\x1b]8;;javascript:alert(1)\x07", b"\x1b]8;;//example.org\x07",
    b"\x1b]8;;https:example.org\x07", b"\x1b]8;; https://example.org\x07", b"\x1b]8;;x-http://example.org\x07",
    b"\x1bktitle\x1b\\", b"\x1bPtmux;x\x1b\\", b"\x1bPq#0;1;1\x07still inside\x1b\\", b"\x1b_Gf=100;AAAA\x1b\\",
    b"\x1b^private\x1b\\", b"\x1bXstring\x1b\\", b"\x1b[8;5;5t", b"\x1b[22;0;0t", b"\x1b[5i", b"\x1b[3J",
    b"\x1b[03J", b"\x1b[3g", b"\x1bH", b"\x1bc", b"\x1b%@", b"\x1b G", b"\x1b[2h", b"\x1b[12l", b"\x1b[20h",
    b"\x1b[?3h", b"\x1b[?1001h", b"\x1b[?2048h", b"\x1b[>1u", b"\x1b[=8u", b"\x1b[>4;2m", b"\x1b[1;2;3;4;5T",
    b"\x1b[99999b", b'\x1b[62;1"p', b"\xc2\x9b", b"\xc2\x90",
]  # fmt: skip

anything = st.lists(
    st.sampled_from(CHARACTERS + DRAWING + QUERIES + LASTING)
    | st.binary(max_size=6)
    | st.sampled_from(
        [b"\x1b", b"\x1b[", b"\x1b]", b"\x1bP", b"\x1b\\", b"\x18", b"\x1a", b"\x9b", b"\xe2", b"\xf0\x9f"]
    ),
    max_size=15,
).map(b"".join)


def in_reads(data: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted({cut % (len(data) + 1) for cut in cuts} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def filtered(*reads: bytes) -> bytes:
    passing = QueryFilter()
    return b"".join(passing.feed(read) for read in reads)


@pytest.mark.parametrize("sequence", CHARACTERS + DRAWING)
def test_drawing_sequences_pass_unchanged(sequence: bytes) -> None:
    assert filtered(b"a" + sequence + b"b") == b"a" + sequence + b"b"


@pytest.mark.parametrize("sequence", QUERIES + LASTING)
def test_queries_and_lasting_sequences_are_dropped_whole(sequence: bytes) -> None:
    assert filtered(b"a" + sequence + b"b") == b"ab"


@pytest.mark.parametrize("sequence", QUERIES + LASTING)
def test_control_characters_inside_a_sequence_do_not_hide_it(sequence: bytes) -> None:
    disguised = sequence[:1] + b"\n" + sequence[1:2] + b"\x05\x7f" + sequence[2:]
    shown = filtered(b"a" + disguised + b"\x1b\\b")
    assert shown.replace(b"\n", b"").replace(b"\x7f", b"").replace("\ufffd".encode(), b"")[:1] == b"a"
    assert b"\x1b" not in shown
    assert b"\x05" not in shown


@pytest.mark.parametrize("begun", [b"\x1b[1;", b"\x1b]0;x", b"\x1bPq", b"\x1b", b"\x1b(", b"\x1b_x"])
def test_new_sequence_ends_an_interrupted_one(begun: bytes) -> None:
    assert filtered(begun, b"\x1b[1m", b"text") == b"\x1b[1mtext"


@pytest.mark.parametrize("sequence", [b"\x1b[1\n;2H", b"\x1b[?1001;25h"])
def test_partly_unknown_sequence_is_dropped(sequence: bytes) -> None:
    assert b"\x1b" not in filtered(sequence)


@given(anything)
def test_single_bytes_give_the_same_output_as_the_whole(data: bytes) -> None:
    assert filtered(*(bytes([byte]) for byte in data)) == filtered(data)


@given(anything, st.lists(st.integers(0, 1000), max_size=6))
def test_output_of_each_feed_is_complete_and_valid(data: bytes, cuts: list[int]) -> None:
    passing = QueryFilter()
    for read in in_reads(data, cuts):
        shown = passing.feed(read)
        again = QueryFilter()
        assert again.feed(shown) == shown
        assert again.held_back == 0


@given(anything)
def test_filtered_output_passes_again_unchanged(data: bytes) -> None:
    once = filtered(data)
    assert filtered(once) == once


@given(anything)
def test_filtered_output_makes_no_terminal_answer(data: bytes) -> None:
    answers: list[str] = []
    screen = pyte.Screen(80, 24)
    screen.write_process_input = answers.append
    pyte.ByteStream(screen).feed(filtered(data))
    assert answers == []


def test_bytes_that_are_not_utf8_show_as_replacements() -> None:
    assert (
        filtered(b"a\xff\xc0\x9b6n\xe2\x82b\xed\xa0\x80").decode() == "a\ufffd\ufffd\ufffd6n\ufffdb\ufffd\ufffd\ufffd"
    )


@pytest.mark.parametrize("intro", [b"\x1b]8;;", b"\x1bP", b"\x1b[", b"\x1b("])
@pytest.mark.parametrize("size", [1, 1000, 1_000_000])
def test_an_endless_sequence_is_dropped_in_bounded_memory(intro: bytes, size: int) -> None:
    filler = b" " if intro in (b"\x1b[", b"\x1b(") else b"x"
    passing = QueryFilter()
    shown = passing.feed(intro)
    for _ in range(max(2, 3 * MAX_SEQUENCE // size)):
        shown += passing.feed(filler * size)
        assert passing.held_back <= MAX_SEQUENCE
    shown += passing.feed(b"\x1b\\" if intro in (b"\x1b]8;;", b"\x1bP") else b"m")
    assert shown == b""
    assert passing.feed(b"text\x1b[m") == b"text\x1b[m"


@pytest.mark.parametrize("length", [MAX_SEQUENCE - 1, MAX_SEQUENCE, MAX_SEQUENCE + 1])
def test_size_limit_is_the_same_whole_and_in_parts(length: int) -> None:
    link = b"\x1b]8;;https://" + b"x" * (length - 15) + b"\x1b\\"
    expected = link if length <= MAX_SEQUENCE else b""
    assert filtered(link) == expected
    assert filtered(*(bytes([byte]) for byte in link)) == expected


def test_terminator_split_at_the_size_limit_is_recognized() -> None:
    assert filtered(b"\x1b]0;" + b"x" * MAX_SEQUENCE + b"\x1b", b"\\", b"text") == b"text"
