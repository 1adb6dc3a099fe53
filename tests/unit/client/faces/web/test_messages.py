"""Tests of what a page and its server say to each other."""

from __future__ import annotations

import json

import msgspec
import pytest

from dbg_client.faces.web.messages import (
    LIVE,
    MAX_RANKS,
    TERMINAL,
    Ask,
    Bell,
    EndOfInput,
    Failed,
    Ranks,
    Reply,
    Size,
    Source,
    Verdict,
    encode,
    read,
)
from dbg_wire.errors import PeerError
from dbg_wire.limits import MAX_TEXT


def test_a_message_names_its_type() -> None:
    assert json.loads(encode(Bell())) == {"type": "bell"}
    assert json.loads(encode(Failed(id=3, sentence="no rank <b>"))) == {
        "type": "failed",
        "id": 3,
        "sentence": "no rank <b>",
    }


def test_rows_and_documents_go_out_as_they_were_made_once() -> None:
    row = msgspec.Raw(b'{"key":"j/0"}')
    assert json.loads(encode(Ranks(rows=(row, row), last=False)))["rows"] == [{"key": "j/0"}] * 2
    assert json.loads(encode(Verdict(job="j", at=1.5, document=None)))["document"] is None


def test_what_a_page_says_is_read() -> None:
    assert read(LIVE, '{"type":"ask","id":1,"line":"where","more":2}') == Ask(id=1, line="where")
    asked = '{"type":"source","id":2,"key":"j/0","file":"/a.py","line":7,"around":4}'
    assert read(LIVE, asked) == Source(id=2, key="j/0", file="/a.py", line=7, around=4)
    assert read(TERMINAL, '{"type":"size","rows":24,"columns":80}') == Size(rows=24, columns=80)
    assert read(TERMINAL, '{"type":"reply","prompt":-1,"text":"n"}') == Reply(prompt=-1, text="n")
    assert read(TERMINAL, '{"type":"endofinput"}') == EndOfInput()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 5000,
        "null",
        '{"type":"serve","id":1}',
        '{"type":"size","rows":24,"columns":80}',
        '{"type":"ask","id":-1,"line":"where"}',
        '{"type":"ask","id":1}',
        '{"type":"ask","id":1,"line":"\\ud800"}',
        '{"type":"ask","id":1,"line":"where","every":0.01}',
        '{"type":"ask","id":1,"line":"where","every":1e300}',
        json.dumps({"type": "ask", "id": 1, "line": "x" * (MAX_TEXT + 1)}),
        json.dumps({"type": "ask", "id": 1, "line": "where", "keys": ["k"] * (MAX_RANKS + 1)}),
        json.dumps({"type": "source", "id": 1, "key": "k" * 1001}),
    ],
)
def test_what_is_no_message_of_a_page_is_refused(text: str) -> None:
    with pytest.raises(PeerError, match="a page's text"):
        read(LIVE, text)


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"ask","id":1,"line":"where"}',
        '{"type":"size","rows":0,"columns":80}',
        '{"type":"size","rows":24,"columns":1001}',
        '{"type":"reply","prompt":-2,"text":"n"}',
        '{"type":"complete","id":1,"line":"a","begin":-1,"end":1}',
    ],
)
def test_what_is_no_message_of_a_terminal_is_refused(text: str) -> None:
    with pytest.raises(PeerError, match="a page's text"):
        read(TERMINAL, text)
