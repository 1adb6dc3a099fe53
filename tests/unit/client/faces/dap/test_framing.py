"""Messages of an IDE as bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.faces.dap.messages import MAX_BODY, LostFrames, frame, read_body

documents = st.dictionaries(st.text(max_size=10), st.text() | st.integers() | st.none() | st.booleans(), max_size=5)


def bodies(pieces: Sequence[bytes]) -> list[bytes]:
    """Return the messages in bytes that come in these pieces."""

    async def read() -> list[bytes]:
        reader = asyncio.StreamReader()
        feeding = asyncio.create_task(feed(reader, pieces))
        found: list[bytes] = []
        while (body := await read_body(reader)) is not None:
            found.append(body)
        await feeding
        return found

    return asyncio.run(read())


async def feed(reader: asyncio.StreamReader, pieces: Sequence[bytes]) -> None:
    """Give a reader one piece after the other, and the end."""
    for piece in pieces:
        reader.feed_data(piece)
        await asyncio.sleep(0)
    reader.feed_eof()


@given(st.lists(documents, max_size=5), st.integers(1, 40))
def test_messages_come_out_as_they_were_written_however_the_bytes_are_cut(sent: list[Any], size: int) -> None:
    data = b"".join(map(frame, sent))
    assert list(map(json.loads, bodies([data[at : at + size] for at in range(0, len(data), size)]))) == sent


@given(st.binary(max_size=300))
def test_any_bytes_are_messages_or_lost_and_never_more_than_that(data: bytes) -> None:
    with suppress(LostFrames):
        bodies([data])


def test_a_body_that_is_anything_leaves_the_next_one_readable() -> None:
    data = b"Content-Length: 2\r\n\r\n[]content-type: x\r\nCONTENT-LENGTH:3\r\n\r\n{]}" + frame({"seq": 1})
    assert bodies([data, b"Content-Length: 9\r\n\r\nrest"]) == [b"[]", b"{]}", b'{"seq":1}']


@pytest.mark.parametrize(
    "data",
    [
        b"hello\n",
        b"GET / HTTP/1.1\r\n",
        b"\r\n",
        b"Content-Length: 2\r\nHost: localhost\r\n\r\n{}",
        b"Content-Length: 2\n\n{}",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 1_0\r\n\r\n",
        b"Content-Length: %d\r\n\r\n" % (MAX_BODY + 1),
        b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"Content-Type: x\r\n\r\n",
        b"x" * 100_000,
    ],
)
def test_a_header_that_is_none_ends_the_reading_at_once(data: bytes) -> None:
    async def read() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(data)  # and no end: nothing more is waited for
        await read_body(reader)

    with pytest.raises(LostFrames):
        asyncio.run(read())


def test_a_lone_surrogate_is_escaped() -> None:
    assert b"\\udc80" in frame({"text": "\udc80"})
