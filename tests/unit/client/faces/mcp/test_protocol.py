"""Lines of JSON-RPC: what they ask for, and what is said of those that ask for nothing that can be done."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.faces.mcp.protocol import VERSIONS, BadCall, agreed_version, read_call, result_line, text_result


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_line_is_a_call_or_a_refusal(line: bytes) -> None:
    with suppress(BadCall):
        read_call(line)


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b'{"jsonrpc":"1.0"}',
        b'{"jsonrpc":"2.0","id":true,"method":"x"}',
        b'{"jsonrpc":"2.0","method":"x","params":[]}',
    ],
)
def test_what_is_no_call_is_refused(line: bytes) -> None:
    with pytest.raises(BadCall):
        read_call(line)


def test_an_answer_of_the_client_asks_for_nothing() -> None:
    assert read_call(b'{"jsonrpc":"2.0","id":1,"result":{}}') is None


def test_an_answer_is_one_line_whatever_the_text_holds() -> None:
    line = result_line(7, text_result("a\nb\x1b[2J\ud800"))
    assert line.count(b"\n") == 1
    assert json.loads(line)["result"]["content"][0]["text"] == "a\nb\x1b[2J\ud800"


def test_the_clients_version_is_spoken_if_it_is_known() -> None:
    assert agreed_version(VERSIONS[-1]) == VERSIONS[-1]
    assert agreed_version("2099-01-01") == agreed_version(None) == VERSIONS[0]
