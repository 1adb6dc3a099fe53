"""Heads of HTTP requests: complete, incomplete, or no request at all."""

from __future__ import annotations

import pytest

from dbg_broker.net.http import HttpAnswer
from dbg_broker.net.http_parts import MAX_HEAD_BYTES, Head, NoRequest, answer_bytes, read_head

REQUEST = b"GET /client HTTP/1.1\r\nHost: h\r\n\r\n"


def test_a_head_is_read_once_it_is_complete() -> None:
    for size in range(len(REQUEST)):
        assert read_head(REQUEST[:size]) is None
    assert read_head(REQUEST + b"frames") == Head("GET", "/client", REQUEST, b"frames")


@pytest.mark.parametrize("method", ["HEAD", "POST", "OPTIONS"])
def test_other_methods_are_known_by_name_and_path(method: str) -> None:
    assert read_head(f"{method} /metrics?x=1 HTTP/1.1\r\n\r\n".encode()) == Head(method, "/metrics?x=1")


@pytest.mark.parametrize("noise", [b"\x16\x03\x01\x02\x00\x01\x00\x01", b"get / HTTP/1.1", b"GETGETGETGETGETGET /"])
def test_what_is_no_request_is_known_by_its_begin(noise: bytes) -> None:
    with pytest.raises(NoRequest, match="no HTTP request"):
        read_head(noise)


def test_a_head_is_bounded() -> None:
    assert read_head(b"GET /" + b"x" * (MAX_HEAD_BYTES - 5)) is None
    with pytest.raises(NoRequest, match="has no end"):
        read_head(b"GET /" + b"x" * MAX_HEAD_BYTES)


def test_an_answer_says_how_long_it_is_and_a_head_is_the_same_without_it() -> None:
    answer = HttpAnswer(404, "né\n", {"Allow": "GET"})
    whole, head = answer_bytes(answer), answer_bytes(answer, with_body=False)
    assert head.startswith(b"HTTP/1.1 404 Not Found\r\n")
    assert b"\r\nContent-Length: 4\r\n" in head
    assert b"\r\nAllow: GET\r\n" in head
    assert whole == head + "né\n".encode()
