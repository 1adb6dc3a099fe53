"""Each request of a client is answered once, whatever is in it, and the server goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from dbg_client.api.broker import open_broker
from dbg_client.faces.mcp.server import McpServer
from dbg_client.faces.mcp.tools import TOOLS
from dbg_dial.waiting import within
from dbg_wire.messages import Action, Kind, Question, RankAnswer
from tests.conftest import Approved
from tests.support.time_unit import seconds
from tests.unit.client.fake_broker import FakeBroker, make_rank


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> Iterator[FakeBroker]:
    with FakeBroker(make_rank(5)) as running:
        for action in Action:
            running.answers[action] = RankAnswer(key="", kind=Kind.ERROR, text="not today")
        for name, value in {**environ, **running.environment}.items():
            monkeypatch.setenv(name, value)
        yield running


class Client:
    """A client without manners."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []
        self.server = McpServer(
            lambda program: open_broker(timeout=seconds(30), program=program),
            lambda line: self.written.append(json.loads(line)),
        )

    async def send(self, method: str, request: object = None, **params: object) -> None:
        document = {"jsonrpc": "2.0", "method": method, "params": params, "id": request}
        await self.server.receive(json.dumps(document).encode())

    async def answer(self) -> dict[str, Any]:
        """Return the only answer since the last one."""
        await within(seconds(60), asyncio.gather(*self.server._open._tasks.values(), return_exceptions=True))
        (answer,) = self.written
        self.written.clear()
        return answer

    async def call(self, tool: str, given: dict[str, object]) -> str:
        """Return the text that a tool answers."""
        await self.send("tools/call", 1, name=tool, arguments=given)
        return str((await self.answer())["result"]["content"][0]["text"])


def test_what_nobody_has_foreseen_is_answered(
    approved: Approved, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Any:
        raise ZeroDivisionError("by zero")

    async def calls() -> None:
        client = Client()
        monkeypatch.setattr(TOOLS[0], "do", fail)
        approved(await client.call("ranks", {}))
        monkeypatch.setattr("dbg_client.faces.mcp.protocol.agreed_version", fail)
        await client.send("initialize", 2)
        approved((await client.answer())["error"]["message"], "2")
        await client.server.end()

    asyncio.run(calls())


def test_a_cancelled_notification_with_an_odd_id_changes_nothing(broker: FakeBroker) -> None:
    async def calls() -> None:
        client = Client()
        odd: list[object] = [[1], {}, None, 1.5]
        for request in odd:
            await client.send("notifications/cancelled", requestId=request)
        await client.send("ping", 3)
        assert (await client.answer())["result"] == {}
        await client.server.end()

    asyncio.run(calls())


def test_a_call_that_lasts_tells_its_progress_to_a_client_that_wants_it(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dbg_client.faces.mcp.server.PROGRESS_SECONDS", 0.01)

    async def calls() -> None:
        client = Client()
        broker.silent = {Question}
        told = asyncio.Event()

        def write(line: bytes) -> None:
            client.written.append(json.loads(line))
            told.set()

        client.server._write = write
        asked = {"name": "eval", "arguments": {"expression": "loss"}}
        for token in ([1], None, True):
            await client.send("tools/call", str(token), **asked, _meta={"progressToken": token})
        await client.send("tools/call", 1, **asked, _meta={"progressToken": "mine"})
        await within(seconds(20), told.wait())
        notice = client.written[0]
        assert (notice["method"], notice["params"]["progressToken"]) == ("notifications/progress", "mine")
        assert notice["params"]["progress"] > 0
        await client.server.end()
        # Nothing is told of a call that has ended.
        assert {one["params"]["progressToken"] for one in client.written} == {"mine"}

    asyncio.run(calls())


def test_an_id_that_is_in_use_and_too_many_calls_are_refused_each_in_its_words(
    approved: Approved, broker: FakeBroker
) -> None:
    async def calls() -> None:
        client = Client()
        broker.silent = {Question}
        for request in (*range(16), 7, 16):
            await client.send("tools/call", request, name="eval", arguments={"expression": "loss"})
        used, many = (answer["error"]["message"] for answer in client.written)
        approved(used)
        approved(many, "2")
        await client.server.end()

    asyncio.run(calls())
