"""Lines of a file that anybody may have written: read, or told apart from events, and nothing is raised."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.replay.cast import Event, Header, read_event, read_header, read_size, version_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def test_a_header_of_the_broker_and_one_of_asciinema_are_read() -> None:
    line = b'{"version":3,"term":{"cols":100,"rows":30,"type":"xterm"},"timestamp":1,"title":"a","env":{"SHELL":"x"}}'
    assert read_header(line) == Header(30, 100, "a")
    assert read_header(b'{"version":3,"term":{"cols":1,"rows":2}}') == Header(2, 1, "")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[]",
        b'{"version":2,"width":80,"height":24}',
        b'{"version":3}',
        b'{"version":3,"term":{"cols":"80","rows":24}}',
        b'{"version":3,"term":{"cols":0,"rows":24}}',
        b'{"version":3,"term":{"cols":true,"rows":24}}',
        b'{"version":3,"term":{"cols":80,"rows":99999999}}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_is_no_header_is_none(line: bytes) -> None:
    assert read_header(line) is None


def test_the_version_of_another_recording_is_known() -> None:
    assert version_of(b'{"version": 2, "width": 80}') == 2
    assert version_of(b"ELF") is None


def test_an_event_is_read() -> None:
    assert read_event(b'[0.25, "o", "a\\u001b[1m"]\n') == Event(0.25, "o", "a\x1b[1m")
    assert read_event(b'[1, "x", "0"]') == Event(1.0, "x", "0")


@pytest.mark.parametrize(
    "line",
    [
        b"# comment",
        b"",
        b"[1,2]",
        b'[-1,"o","a"]',
        b'[NaN,"o","a"]',
        b'[1e999,"o","a"]',
        b'[true,"o","a"]',
        b'["1","o","a"]',
        b'[1,"o",2]',
        b'[1,null,"a"]',
        b'[1,"o"',
        b'[%s,"o","a"]' % (b"9" * 5000),
        b'[%s,"o","a"]' % (b"9" * 400),
    ],
)
def test_what_is_no_event_is_none(line: bytes) -> None:
    assert read_event(line) is None


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_nothing_is_raised(line: bytes) -> None:
    read_header(line)
    version_of(line)
    event = read_event(line)
    assert event is None or event.interval >= 0


def test_a_size_is_columns_and_rows() -> None:
    assert read_size("80x24") == (24, 80)
    assert [read_size(text) for text in ("80", "x", "80x0", "999999x2", "80x24x1", "٣x2")] == [None] * 6
