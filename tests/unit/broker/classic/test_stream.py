"""Screens and prints of a stock PuDB, told apart wherever reads cut them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.classic.screen import (
    Drawn,
    Entered,
    Extent,
    Left,
    Piece,
    PrintedBytes,
    Splitter,
    without_queries,
)

STOP = b"before\n\x1b[?1049h\x1b)0\x1b[H\x1b[1;1HPuDB\x1b[K\x1b[?1049l\x1b[?25hprinted\n\x1b[?1049h\x1b[Hagain"


def joined(pieces: list[Piece]) -> list[Piece]:
    """Return the pieces as one read of the whole stream gives them."""
    whole: list[Piece] = []
    for piece in pieces:
        last = whole[-1] if whole else None
        if isinstance(piece, Drawn) and isinstance(last, Drawn):
            whole[-1] = Drawn(last.data + piece.data)
        elif isinstance(piece, PrintedBytes) and isinstance(last, PrintedBytes):
            whole[-1] = PrintedBytes(last.data + piece.data)
        else:
            whole.append(piece)
    return whole


def cut_up(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({cut % (len(data) + 1) for cut in cuts})
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


@given(st.lists(st.integers(min_value=0, max_value=1000), max_size=20))
def test_switches_are_found_wherever_reads_cut(cuts: list[int]) -> None:
    splitter = Splitter()
    pieces = [piece for part in cut_up(STOP, cuts) for piece in splitter.feed(part)]
    assert joined(pieces) == [
        PrintedBytes(b"before\n"),
        Entered(b"\x1b[?1049h"),
        Drawn(b"\x1b)0\x1b[H\x1b[1;1HPuDB\x1b[K"),
        Left(),
        PrintedBytes(b"\x1b[?25hprinted\n"),
        Entered(b"\x1b[?1049h"),
        Drawn(b"\x1b[Hagain"),
    ]


@given(st.binary(max_size=300), st.lists(st.integers(min_value=0, max_value=300), max_size=8))
def test_no_byte_is_lost_but_the_begin_of_a_switch(data: bytes, cuts: list[int]) -> None:
    splitter = Splitter()
    pieces = [piece for part in cut_up(data, cuts) for piece in splitter.feed(part)]
    kept = b"".join(b"\x1b[?1049l" if isinstance(piece, Left) else piece.data for piece in pieces)
    assert data.startswith(kept)
    assert len(data) - len(kept) < 9


def test_older_terminals_switches_count_too() -> None:
    assert list(Splitter().feed(b"\x1b7\x1b[?47hx")) == [PrintedBytes(b"\x1b7"), Entered(b"\x1b[?47h"), Drawn(b"x")]


@given(st.lists(st.integers(min_value=0, max_value=200), max_size=10))
def test_extent_is_what_was_drawn_over(cuts: list[int]) -> None:
    extent = Extent()
    drawn = "\x1b[H\x1b[1;1H\x1b[0;34;47mPuDB\x1b[K\x1b[30;96H│äx\x1b[0m日\x1b[2;1Hz\r\nq".encode()
    for part in cut_up(drawn, cuts):
        extent.feed(part)
    assert (extent.rows, extent.columns) == (30, 100)


@given(st.binary(max_size=400))
def test_extent_of_anything_is_a_size(data: bytes) -> None:
    extent = Extent()
    extent.feed(data)
    assert 0 <= extent.rows < 10_000
    assert 0 <= extent.columns < 10_000


def test_queries_are_left_out_of_a_replay() -> None:
    asked = b"\x1b[?2026$p\x1b[c\x1b[>0q\x1b[6n\x1b]11;?\x07"
    drawn = b"\x1b[?25l\x1b[1;1H\x1b[38;5;17mtext\x1b[K\x1b[4l"
    assert without_queries(asked + drawn + asked) == drawn
    assert without_queries(asked + drawn + b"\x1b[3") == drawn + b"\x1b[3"
