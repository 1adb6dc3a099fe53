"""Each request of a client is answered once, whatever is in it, and the server goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.api.broker import open_broker
from dbg_client.mcp.protocol import VERSIONS, BadCall, agreed_version, read_call, result_line, text_result
from dbg_client.mcp.server import McpServer
from dbg_client.mcp.tools import MAX_CHARACTERS, MAX_LINES, TOOLS, short_answer, tool_for
from dbg_dial.tcp import within
from dbg_wire.errors import Remedy
from dbg_wire.messages import Action, Kind, Question, RankAnswer
from tests.conftest import Approved
from tests.support.time_unit import seconds
from tests.unit.client.fake_broker import FakeBroker, make_rank

OTHER = make_rank(0, key="other/0/gpu013:0/1", job="other", run="0", world_size=8)


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


async def test_unexpected_error_is_answered(
    approved: Approved, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Any:
        raise ZeroDivisionError("by zero")

    client = Client()
    monkeypatch.setattr(TOOLS[0], "do", fail)
    approved(await client.call("ranks", {}))
    monkeypatch.setattr("dbg_client.mcp.protocol.agreed_version", fail)
    await client.send("initialize", 2)
    approved((await client.answer())["error"]["message"], "2")
    await client.server.end()


async def test_ranks_tool_lists_missing_ranks_of_its_job_only(broker: FakeBroker) -> None:
    broker.ranks[OTHER.key] = OTHER
    client = Client()
    assert "1-7" not in await client.call("ranks", {"job": "4711.0"})
    assert "1-7" in await client.call("ranks", {"job": "other"})
    await client.server.end()


async def test_tool_for_one_rank_refuses_several(approved: Approved, broker: FakeBroker) -> None:
    client = Client()
    broker.ranks["7"] = make_rank(7, key="7")
    approved(await client.call("variables", {"rank": "all"}))
    await client.server.end()


async def test_cancelled_notification_with_an_odd_id_is_ignored(broker: FakeBroker) -> None:
    client = Client()
    odd: list[object] = [[1], {}, None, 1.5]
    for request in odd:
        await client.send("notifications/cancelled", requestId=request)
    await client.send("ping", 3)
    assert (await client.answer())["result"] == {}
    await client.server.end()


async def test_long_call_reports_progress_to_a_client_that_asks_for_it(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dbg_client.mcp.server.PROGRESS_SECONDS", 0.01)

    client = Client()
    broker.silent = {Question}
    received = asyncio.Event()

    def write(line: bytes) -> None:
        client.written.append(json.loads(line))
        received.set()

    client.server._write = write
    asked = {"name": "eval", "arguments": {"expression": "loss"}}
    for token in ([1], None, True):
        await client.send("tools/call", str(token), **asked, _meta={"progressToken": token})
    await client.send("tools/call", 1, **asked, _meta={"progressToken": "mine"})
    await within(seconds(20), received.wait())
    notice = client.written[0]
    assert (notice["method"], notice["params"]["progressToken"]) == ("notifications/progress", "mine")
    assert notice["params"]["progress"] > 0
    await client.server.end()
    # Nothing is reported of a call that has ended.
    assert {one["params"]["progressToken"] for one in client.written} == {"mine"}


@pytest.mark.parametrize(
    ("remedy", "tool"),
    [
        (Remedy("interrupt", "2"), "`interrupt` with ranks='2', then"),
        (Remedy("interrupt", "train-1/2"), "`interrupt` with ranks='2', job='train-1', then"),
        (Remedy("attach", "5"), "`where` with ranks='5', then `variables`"),
        (Remedy("where", "0-3,7", ("--threads",)), "`where` with ranks='0-3,7', threads=true"),
        (Remedy("where", "1", ("--all",)), "`where` with ranks='1'"),
        (Remedy("why"), "`why`"),
    ],
)
def test_a_verdict_names_the_tool_to_call_next(remedy: Remedy, tool: str) -> None:
    assert tool_for(remedy, may_change=True).startswith(tool)
    assert remedy.verb not in ("interrupt", "attach") or "`where`" in tool_for(remedy, may_change=False)


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
def test_invalid_call_is_refused(line: bytes) -> None:
    with pytest.raises(BadCall):
        read_call(line)


def test_an_answer_is_one_line_whatever_the_text_holds() -> None:
    line = result_line(7, text_result("a\nb\x1b[2J\ud800"))
    assert line.count(b"\n") == 1
    assert json.loads(line)["result"]["content"][0]["text"] == "a\nb\x1b[2J\ud800"


def test_version_of_the_client_is_used_if_it_is_known() -> None:
    assert agreed_version(VERSIONS[-1]) == VERSIONS[-1]
    assert agreed_version("2099-01-01") == agreed_version(None) == VERSIONS[0]


def test_long_answer_is_cut_with_a_note() -> None:
    short = "\n".join(map(str, range(MAX_LINES)))
    assert short_answer(short) == short
    *shown, note = short_answer(f"{short}\na\nb\n").split("\n")
    assert "\n".join(shown) == short
    assert "2 more lines" in note
    line, note = short_answer("x" * (2 * MAX_CHARACTERS)).split("\n")
    assert len(line) == MAX_CHARACTERS
    assert short_answer("a\x1b[2J\nb") == "a\\x1b[2J\nb"
