"""A caller that is no debugger is told so in its own protocol: HTTP, TLS or plain text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.classic.callers import answer_to_noise


@pytest.mark.parametrize(
    "head", [b"", b"G", b"\xe6\x97", b"\x1b[?1049h\x1b)0", "épochs\n".encode(), b"GETTING there\n"]
)
def test_what_may_be_a_debugger_is_let_in(head: bytes) -> None:
    assert answer_to_noise(head) is None


def test_http_is_answered_with_400_in_one_line() -> None:
    answer = answer_to_noise(b"GET / HTTP/1.1\r\n")
    assert answer is not None
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert f"Content-Length: {len(body)}".encode() in head
    assert body.count(b"\n") == 1


def test_tls_gets_an_alert() -> None:
    answer = answer_to_noise(b"\x16\x03\x01\x02\x00\x01")
    assert answer is not None
    assert answer[:1] == b"\x15"


@pytest.mark.parametrize("head", [b"\xff\xfb\x1f\xff\xfd\x03", b"\0\0\0\x10", b"\x80\x81\x82"])
def test_telnet_and_junk_get_a_sentence(head: bytes) -> None:
    answer = answer_to_noise(head)
    assert answer is not None
    assert b"stock pudb.remote.set_trace" in answer
    assert answer.endswith(b"\r\n")


@given(st.binary(max_size=200))
def test_anything_is_either_answered_or_let_in(head: bytes) -> None:
    answer = answer_to_noise(head)
    assert answer is None or answer
