"""Requests of an IDE, and what goes back: judged by the protocol's own schema."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from dbg_client.faces.dap.messages import (
    CAPABILITIES,
    BadMessage,
    Message,
    Request,
    event,
    numbered,
    output,
    read_request,
    refusal,
    response,
)
from tests.support.dap_schema import definitions, judge


def test_a_request_is_read_with_and_without_arguments() -> None:
    document: dict[str, Any] = {"seq": 3, "type": "request", "command": "next", "arguments": {"threadId": 2}}
    assert read(document) == Request(3, "next", {"threadId": 2})
    assert read({**document, "arguments": None}) == Request(3, "next")
    assert read({"seq": 4, "type": "response", "request_seq": 1, "success": True, "command": "x"}) is None


def read(document: object) -> Request | None:
    """Return the request of a document."""
    return read_request(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{}", "message lacks the field 'type'"),
        (b"[]", "message is [], not `object`"),
        (b"{]", "message is not JSON (DecodeError)"),
        (b'{"seq":1,"type":"event","event":"x"}', "message.type"),
        (b'{"seq":1,"type":"request","command":5}', "message.command is 5, not `str`"),
        (b'{"seq":true,"type":"request","command":"next"}', "message.seq is True, not `int`"),
        (b'{"seq":-1,"type":"request","command":"next"}', "message.seq is -1, below 0"),
        (b'{"seq":1,"type":"request","command":"\xff"}', "message is no text in UTF-8"),
    ],
)
def test_what_is_no_request_is_told_so(body: bytes, problem: str) -> None:
    with pytest.raises(BadMessage, match=f"^{re.escape(problem)}"):
        read_request(body)


def test_what_goes_out_is_numbered_and_is_what_the_protocol_has() -> None:
    sent: list[Message] = []
    send = numbered(sent.append)
    request = Request(7, "initialize", {})
    send(response(request, CAPABILITIES))
    send(refusal(Request(8, "attach", {}), "no broker {here}", show_user=True))
    send(event("initialized"))
    send(event("terminated"))
    send(output("a line"))
    send(response(Request(9, "configurationDone", {})))
    assert [message["seq"] for message in sent] == [1, 2, 3, 4, 5, 6]
    for message in sent:
        judge(message)
    assert sent[1]["body"]["error"]["format"] == sent[1]["message"]
    assert sent[4]["body"]["output"] == "a line\n"


def test_the_schema_knows_what_is_wrong() -> None:
    with pytest.raises(Exception, match="threadId"):
        judge({"seq": 1, "type": "event", "event": "stopped", "body": {"reason": "step", "threadId": "1"}})
    # The protocol has some fifty requests; a schema that is cut off would judge nothing.
    assert len(definitions()) > 150
