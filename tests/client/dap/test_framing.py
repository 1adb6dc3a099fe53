"""Messages of an IDE as bytes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.dap.messages import MAX_BODY, MAX_HEADER, FrameReader, Garbled, LostFrames, frame

documents = st.dictionaries(st.text(max_size=10), st.text() | st.integers() | st.none() | st.booleans(), max_size=5)


@given(st.lists(documents, max_size=5), st.integers(1, 40))
def test_messages_come_out_as_they_were_written_however_the_bytes_are_cut(sent: list[Any], size: int) -> None:
    data = b"".join(map(frame, sent))
    reader = FrameReader()
    found = [one for at in range(0, len(data), size) for one in reader.feed(data[at : at + size])]
    assert found == sent


@given(st.binary(max_size=300))
def test_any_bytes_are_messages_or_lost_and_never_more_than_that(data: bytes) -> None:
    with suppress(LostFrames):
        assert all(isinstance(one, (dict, Garbled)) for one in FrameReader().feed(data))


def test_a_message_that_is_no_object_leaves_the_next_one_readable() -> None:
    data = b"Content-Length: 2\r\n\r\n[]Content-Length: 3\r\n\r\n{]}" + frame({"seq": 1})
    assert list(FrameReader().feed(data)) == [
        Garbled("it is no JSON object"),
        Garbled("it is no JSON"),
        {"seq": 1},
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"hello\n",
        b"GET / HTTP/1.1\r\n",
        b"Content-Length: 2\r\nHost: localhost\r\n\r\n{}",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 1_0\r\n\r\n",
        b"Content-Length: %d\r\n\r\n" % (MAX_BODY + 1),
        b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"Content-Type: x\r\n\r\n",
        b"x" * (MAX_HEADER + 1),
    ],
)
def test_a_header_that_is_none_ends_the_reading(data: bytes) -> None:
    with pytest.raises(LostFrames):
        list(FrameReader().feed(data))


def test_a_lone_surrogate_is_escaped() -> None:
    assert b"\\udc80" in frame({"text": "\udc80"})
