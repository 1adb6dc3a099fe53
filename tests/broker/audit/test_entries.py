"""An entry of the audit log comes back as it was written, and no line of a file breaks its reader."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.audit.entries import MAX_LINE, MAX_TEXT, Entry, What, decode_entry, encode_entry, shown_ranks

texts = st.text(st.characters(), max_size=100)
entries = st.builds(
    Entry,
    at=st.floats(0, 4e9).map(lambda at: round(at, 3)),
    what=st.sampled_from(What),
    terminal=texts,
    job=texts,
    ranks=texts,
    text=texts,
    count=st.integers(0, 10**6),
)


@given(entries)
def test_an_entry_comes_back(entry: Entry) -> None:
    line = encode_entry(entry)
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert decode_entry(line) == entry


@given(st.binary())
def test_any_line_is_an_entry_or_none(line: bytes) -> None:
    found = decode_entry(line)
    assert found is None or isinstance(found, Entry)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{}",
        b'{"at":1}',
        b'{"at":"now","what":"attach"}',
        b'{"at":true,"what":"attach"}',
        b'{"at":1e300,"what":"attach"}',
        b'{"at":1,"what":"party"}',
        b'{"at":1,"what":"attach","job":7}',
        b'{"at":1,"what":"cut","count":1.5}',
        b'{"at":1,"what":"attach","text":"' + b"x" * MAX_LINE + b'"}',
        b"[" * 10000,
    ],
)
def test_a_line_that_is_no_entry_is_none(line: bytes) -> None:
    assert decode_entry(line) is None


def test_a_long_text_is_cut() -> None:
    found = decode_entry(encode_entry(Entry(at=1.0, what=What.QUESTION, text="x" * 10 * MAX_TEXT)))
    assert found is not None
    assert found.text == "x" * MAX_TEXT + "…"


def test_one_rank_is_named_and_several_are_a_set() -> None:
    assert shown_ranks([(5, "gpu013:5")]) == "gpu013:5"
    assert shown_ranks([(0, "a:0"), (1, "a:1"), (2, "b:2"), (7, "b:7")]) == "0-2,7"
