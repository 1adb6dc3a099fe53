from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dbg_client.terminal.escape import Command, EscapeParser, Keys

P = b"\x1d"
HELP = Command("?")


def fed(*reads: bytes, prefix: bytes | None = P) -> list[Keys | Command]:
    parser = EscapeParser(prefix)
    return [part for read in reads for part in parser.feed(read)]


def typed(parts: list[Keys | Command]) -> bytes:
    return b"".join(part.data for part in parts if isinstance(part, Keys))


def commands(parts: list[Keys | Command]) -> str:
    return "".join(part.key for part in parts if isinstance(part, Command))


def merged(parts: list[Keys | Command]) -> list[bytes | str]:
    out: list[bytes | str] = []
    for part in parts:
        if isinstance(part, Command):
            out.append(part.key)
        elif out and isinstance(out[-1], bytes):
            out[-1] += part.data
        else:
            out.append(part.data)
    return out


def in_reads(data: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted({cut % (len(data) + 1) for cut in cuts} | {len(data)})
    starts = [0, *ends]
    return [data[start:end] for start, end in zip(starts, ends, strict=False)]


@pytest.mark.parametrize("key", "d.?rnpw:")
def test_each_command_key_is_reported_and_neither_byte_reaches_the_rank(key: str) -> None:
    assert fed(b"ab" + P + key.encode() + b"cd") == [Keys(b"ab"), Command(key), Keys(b"cd")]


@pytest.mark.parametrize("second", [P, b"]"])
def test_a_literal_prefix_can_be_sent(second: bytes) -> None:
    assert fed(b"a" + P + second + b"b") == [Keys(b"a" + P + b"b")]


@pytest.mark.parametrize(
    "second", [b"x", b"D", b"\r", b"\x04", b"\x00", b"\xff", "é".encode(), "日".encode(), b"\x1bx"]
)
def test_an_unknown_second_key_asks_for_help_and_is_dropped_with_the_prefix(second: bytes) -> None:
    assert fed(P + second + b"c") == [HELP, Keys(b"c")]


SEQUENCE_KEYS = [
    b"\x1b[A",
    b"\x1bOP",
    b"\x1b[1;5C",
    b"\x1b[15~",
    b"\x1b[[A",
    b"\x1b[M !!",
    b"\x1b[<0;10;20M",
    b"\x1b[93;6u",
    b"\x1b[9~",
    b"\x1b[200~pasted \x1d text\x1b[201~",
]


@pytest.mark.parametrize("key", SEQUENCE_KEYS)
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_no_part_of_a_function_key_after_the_prefix_reaches_the_rank(key: bytes, size: int) -> None:
    data = P + key
    reads = [data[at : at + size] for at in range(0, len(data), size)]
    assert merged(fed(*reads, b"c" + P + b"d")) == ["?", b"c", "d"]


def test_escape_after_the_prefix_asks_for_help_at_once_and_the_next_read_is_a_new_key() -> None:
    assert fed(P, b"\x1b", b"c") == [HELP, Keys(b"c")]
    assert fed(P, b"\x1b", P, b"d") == [HELP, Command("d")]


def test_a_broken_sequence_after_the_prefix_is_dropped_and_does_not_hide_the_next_prefix() -> None:
    assert fed(P + b"\x1b[12", P + b"d") == [HELP, Command("d")]


def test_pending_lasts_from_the_prefix_to_the_next_key() -> None:
    parser = EscapeParser()
    states = []
    for read in (b"x", P, b"", b"d", P, b"\x1b"):
        parser.feed(read)
        states.append(parser.pending)
    assert states == [False, True, True, False, True, False]


@given(st.lists(st.integers(0, 1000), max_size=8))
def test_the_prefix_inside_a_paste_is_text_however_the_paste_is_split(cuts: list[int]) -> None:
    paste = b"\x1b[200~" + P + b"d\x1b[2\x1b\x1b[201~"
    assert merged(fed(*in_reads(paste, cuts), P + b"d")) == [paste, "d"]


@pytest.mark.parametrize("key", [b"\x1b[93;6u", b"\x1b[94;5u", b"\x1b[9~", b"\x1b[A", b"\x1b[27;5;94~", b"\x1b[93;5~"])
def test_sequences_that_resemble_the_prefix_are_passed_unchanged(key: bytes) -> None:
    for cut in range(len(key)):
        assert merged(fed(b"a" + key[:cut], key[cut:] + b"b")) == [b"a" + key + b"b"]


def test_a_lone_escape_is_sent_at_once() -> None:
    parser = EscapeParser()
    assert parser.feed(b"\x1b") == [Keys(b"\x1b")]
    assert parser.feed(b"[93;5u") == [Keys(b"[93;5u")]
    assert parser.feed(P + b"d") == [Command("d")]


def test_an_unfinished_sequence_is_sent_at_once() -> None:
    assert EscapeParser().feed(b"\x1b[1;") == [Keys(b"\x1b[1;")]
    assert EscapeParser().feed(b"\xc3") == [Keys(b"\xc3")]


def test_without_a_prefix_all_keys_reach_the_rank() -> None:
    data = P + b"d\x1b[9"
    assert fed(data, prefix=None) == [Keys(data)]


def test_an_endless_sequence_reaches_the_rank() -> None:
    parser = EscapeParser()
    endless = b"\x1b[" + b"1;" * 500
    out = []
    for byte in endless:
        out += parser.feed(bytes([byte]))
    assert typed(out) == endless
    assert parser.feed(P + b"d") == [Command("d")]


PIECES = [
    P,
    b"d",
    b"]",
    b"x",
    b"\x1b",
    b"[",
    b"O",
    b"\x1b[93;5u",
    b"\x1b[93",
    b"\x1b[A",
    b"\x1b[200~",
    b"\x1b[201~",
    b"\xc3\xa9",
    b"M",
]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join), st.lists(st.integers(0, 1000), max_size=8))
def test_input_without_a_prefix_is_passed_completely_and_in_order(data: bytes, cuts: list[int]) -> None:
    data = data.replace(P, b"")
    parts = fed(*in_reads(data, cuts))
    assert typed(parts) == data
    assert commands(parts) == ""


PLAIN = [P, b"d", b"]", b"x", b"[", b"O", b"~", b"\xc3\xa9", b"\x00", b"\x03"]


@given(st.lists(st.sampled_from(PLAIN), max_size=20).map(b"".join))
def test_single_bytes_mean_the_same_as_one_read(data: bytes) -> None:
    assert merged(fed(*(bytes([byte]) for byte in data))) == merged(fed(data))


@given(
    st.lists(st.sampled_from(PIECES) | st.binary(max_size=4), max_size=12), st.lists(st.integers(0, 1000), max_size=8)
)
def test_the_user_can_detach_after_any_input_but_an_open_paste(pieces: list[bytes], cuts: list[int]) -> None:
    data = b"".join(pieces)
    assume(b"\x1b[200~" not in data)
    parser = EscapeParser()
    for read in in_reads(data, cuts):
        parser.feed(read)
    if parser.pending:
        parser.feed(b"x")
    parser.feed(P)
    assert parser.feed(b"d") == [Command("d")]
