"""An entry of the audit log comes back as it was written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.audit.entries import MAX_TEXT, encode_entry, shown_ranks
from dbg_wire.records.audit import Entry, What, decode_entry

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


def test_a_long_text_is_cut() -> None:
    found = decode_entry(encode_entry(Entry(at=1.0, what=What.QUESTION, text="x" * 10 * MAX_TEXT)))
    assert found is not None
    assert found.text == "x" * MAX_TEXT + "…"


def test_one_rank_is_named_and_several_are_a_set() -> None:
    assert shown_ranks([(5, "gpu013:5")]) == "gpu013:5"
    assert shown_ranks([(0, "a:0"), (1, "a:1"), (2, "b:2"), (7, "b:7")]) == "0-2,7"
