"""Heads of HTTP requests: complete, incomplete, or no request at all."""

from __future__ import annotations

import pytest

from dbg_broker.net.http import (
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    Head,
    HttpAnswer,
    NoRequest,
    Upgrade,
    answer_bytes,
    read_head,
    read_request,
    switching,
    upgrade_of,
)

UPGRADE = {
    "Host": "h",
    "Upgrade": "websocket",
    "Connection": "keep-alive, Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Protocol": "other, dbg.v1",
    "Authorization": "Bearer x",
}

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


def lines(headers: dict[str, str], first: str = "GET /agent HTTP/1.1") -> bytes:
    return "\r\n".join([first, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode("latin-1")


def test_a_websocket_is_answered_as_the_rfc_has_it() -> None:
    request = read_request(lines(UPGRADE))
    assert upgrade_of(request) == Upgrade("/agent", "Bearer x", None, ["other", "dbg.v1"])
    answer = switching(request)
    assert isinstance(answer, bytes)
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert b"\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer
    assert b"\r\nSec-WebSocket-Protocol: dbg.v1\r\n" in answer


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Connection", "keep-alive", 426),
        ("Upgrade", "h2c", 426),
        ("Upgrade", "websocket, h2c", 426),
        ("Sec-WebSocket-Key", "", 400),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ", 400),
        ("Sec-WebSocket-Version", "8", 400),
    ],
)
def test_what_asks_for_no_websocket_is_told_why(header: str, value: str, status: int) -> None:
    answer = switching(read_request(lines({**UPGRADE, header: value})))
    assert isinstance(answer, HttpAnswer)
    assert answer.status == status


def test_two_tokens_and_two_keys_count_as_none() -> None:
    twice = read_request(lines({**UPGRADE, "authorization": "Bearer y", "sec-websocket-key": "A" * 22 + "=="}))
    assert upgrade_of(twice).authorization is None
    assert isinstance(switching(twice), HttpAnswer)


def test_an_older_http_has_no_websocket() -> None:
    answer = switching(read_request(lines(UPGRADE, "GET /agent HTTP/1.0")))
    assert isinstance(answer, HttpAnswer)
    assert answer.status == 505


@pytest.mark.parametrize(
    "wrong",
    [
        lines({}, "GET /agent"),
        lines({}, "GET /agent HTTP/2.0"),
        lines({}, "GET /\xe9 HTTP/1.1"),
        lines({"A B": "c"}),
        lines({"A": "b\rc"}),
        lines({"A": "b\nC: d"}),
        lines({"A": "b\x00"}),
        b"GET / HTTP/1.1\r\n folded: x\r\n\r\n",
        lines({"Transfer-Encoding": "chunked"}),
        lines({"Content-Length": "1"}),
        lines({f"H{number}": "" for number in range(MAX_HEADERS + 1)}),
    ],
)
def test_what_is_not_well_formed_or_has_a_body_is_no_request(wrong: bytes) -> None:
    with pytest.raises(NoRequest):
        read_request(wrong)
