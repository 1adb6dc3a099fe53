"""No line of a file breaks the reader of the audit log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_wire.records.audit import MAX_LINE, Entry, decode_entry


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
