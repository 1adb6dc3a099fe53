"""Requests that need no rank: the order of a session, what is refused, and how many may be open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.core.brokers import Brokers
from dbg_client.core.switchboard import Switchboard
from dbg_client.dap.adapter import Adapter
from dbg_client.dap.messages import (
    CAPABILITIES,
    MAX_BODY,
    BadMessage,
    Client,
    LostFrames,
    Message,
    Request,
    event,
    frame,
    numbered,
    output,
    read_body,
    read_request,
    refusal,
    response,
)
from dbg_wire.errors import BrokerUnreachable
from tests.conftest import Approved
from tests.support.dap_schema import judge
from tests.support.time_unit import seconds
from tests.unit.client.dap.shown import Shown
from tests.unit.client.scripted_link import ScriptedLink


class NoBroker(ScriptedLink):
    """A broker that is not there."""

    async def open(self) -> None:
        raise BrokerUnreachable("wss://there", "nobody answers")


class SilentBroker(ScriptedLink):
    """A broker that never answers."""

    async def open(self) -> None:
        await asyncio.Event().wait()


@asynccontextmanager
async def held(link: type[ScriptedLink] = NoBroker) -> AsyncIterator[tuple[Adapter, Shown]]:
    """Yield an adapter on this link, and what it says."""
    ide = Shown()
    made = cast("Brokers", link())
    adapter = Adapter(lambda name: Switchboard(lambda: made, seconds(10)), None, ide.take)
    yield adapter, ide
    await adapter.close()


async def ask(adapter: Adapter, ide: Shown, seq: int, command: str, **arguments: object) -> Message:
    """Return the response."""
    adapter.receive(Request(seq, command, arguments))
    return await ide.answer(seq)


@pytest.mark.parametrize("command", ["threads", "evaluate", "configurationDone", "no such\x1b request", "launch"])
async def test_requests_are_refused_before_the_window_is_attached(approved: Approved, command: str) -> None:
    async with held() as (adapter, ide):
        answer = await ask(adapter, ide, 1, command)
        assert not answer["success"]
        approved(answer["message"])


async def test_missing_broker_is_shown_to_the_user_and_attach_may_be_repeated() -> None:
    async with held() as (adapter, ide):
        for seq in (1, 2):
            answer = await ask(adapter, ide, seq, "attach", target="all")
            assert "nobody answers" in answer["message"]
            assert answer["body"]["error"]["showUser"]
        wrong = await ask(adapter, ide, 3, "attach", target="0-")
        assert "0-" in wrong["message"]
        assert not ide.named("initialized")


async def test_closing_cancels_open_requests() -> None:
    async with held(SilentBroker) as (adapter, ide):
        adapter.receive(Request(1, "attach", {}))
        # A second session would never be left.
        assert not (await ask(adapter, ide, 2, "attach"))["success"]
        await adapter.close()
        assert (await ide.answer(1))["message"] == "cancelled"


async def test_every_request_is_answered_whatever_fails(approved: Approved) -> None:
    async with held() as (adapter, ide):
        assert not (await ask(adapter, ide, 1, "initialize", linesStartAt1=False))["success"]
        adapter.receive(Request(2, "initialize", [1]))
        assert "the arguments of initialize are not an object" in (await ide.answer(2))["message"]

    ide = Shown()
    adapter = Adapter(lambda name: cast("Switchboard", 1 // 0), None, ide.take)
    answer = await ask(adapter, ide, 1, "attach")
    approved(answer["message"])


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
def test_messages_are_read_however_the_bytes_are_split(sent: list[Any], size: int) -> None:
    data = b"".join(map(frame, sent))
    assert list(map(json.loads, bodies([data[at : at + size] for at in range(0, len(data), size)]))) == sent


@given(st.binary(max_size=300))
def test_any_bytes_are_messages_or_lost_frames(data: bytes) -> None:
    with suppress(LostFrames):
        bodies([data])


def test_invalid_body_leaves_the_next_one_readable() -> None:
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
def test_invalid_header_ends_reading_at_once(data: bytes) -> None:
    async def read() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(data)  # and no end: nothing more is waited for
        await read_body(reader)

    with pytest.raises(LostFrames):
        asyncio.run(read())


def test_a_request_is_read_with_and_without_arguments() -> None:
    document: dict[str, Any] = {"seq": 3, "type": "request", "command": "next", "arguments": {"threadId": 2}}
    assert read(document) == Request(3, "next", {"threadId": 2})
    assert read({**document, "arguments": None}) == Request(3, "next")
    assert read({"seq": 4, "type": "response", "request_seq": 1, "success": True, "command": "x"}) is None


def read(document: object) -> Request | None:
    """Return the request of a document."""
    return read_request(json.dumps(document).encode())


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b"{]",
        b'{"seq":1,"type":"event","event":"x"}',
        b'{"seq":1,"type":"request","command":5}',
        b'{"seq":true,"type":"request","command":"next"}',
        b'{"seq":-1,"type":"request","command":"next"}',
    ],
    ids=range(7),
)
def test_invalid_request_is_refused_with_a_reason(approved: Approved, body: bytes) -> None:
    with pytest.raises(BadMessage) as caught:
        read_request(body)
    approved(str(caught.value))


def test_a_request_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(BadMessage):
        read_request(b'{"seq":1,"type":"request","command":"\xff"}')


def test_sent_messages_are_numbered_and_match_the_protocol() -> None:
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


def test_a_lone_surrogate_in_a_ranks_text_reaches_the_ide() -> None:
    _, _, body = frame(output("x = '\ud800'")).partition(b"\r\n\r\n")
    assert json.loads(body)["body"]["output"] == "x = '\ud800'\n"


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"clientName": "Visual Studio Code", "clientID": "vscode"}, "VS Code"),
        ({"clientID": "nvim-dap"}, "nvim-dap"),
        ({"clientName": "evil\x1b[2J"}, "evil\\x1b[2J"),
        ({"clientName": 5}, "IDE"),
        ({"clientName": "  "}, "IDE"),
        ({}, "IDE"),
    ],
)
def test_client_name_is_short_and_printable(arguments: dict[str, object], name: str) -> None:
    assert Client.read(arguments).name == name
