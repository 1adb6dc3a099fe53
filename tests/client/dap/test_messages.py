"""Requests of an IDE, and what goes back: judged by the protocol's own schema."""

from __future__ import annotations

from typing import Any

import pytest

from dbg_client.dap.messages import (
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
    document = {"seq": 3, "type": "request", "command": "next", "arguments": {"threadId": 2}}
    assert read_request(document) == Request(3, "next", {"threadId": 2})
    assert read_request({"seq": 3, "type": "request", "command": "threads", "arguments": None}) == Request(
        3, "threads", {}
    )
    assert read_request({"seq": 4, "type": "response", "request_seq": 1, "success": True, "command": "x"}) is None


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"seq": 1, "type": "event", "event": "x"},
        {"seq": 1, "type": "request", "command": 5},
        {"seq": True, "type": "request", "command": "next"},
        {"seq": -1, "type": "request", "command": "next"},
        {"seq": 1, "type": "request", "command": "next", "arguments": []},
    ],
)
def test_what_is_no_request_is_told_so(document: dict[str, Any]) -> None:
    with pytest.raises(BadMessage):
        read_request(document)


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
