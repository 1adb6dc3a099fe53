"""Programs that go from broker to broker keep no descriptor and no thread of those that they have left."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

import dbg_client
from dbg_client.api.broker import open_broker
from dbg_client.core.switchboard import switchboard_to
from dbg_client.faces.dap.adapter import Adapter
from dbg_client.faces.dap.messages import Request
from dbg_client.faces.mcp.server import McpServer
from dbg_dial.waiting import within
from tests.support.time_unit import seconds
from tests.unit.client.faces.dap.shown import Shown
from tests.unit.client.fake_broker import TOKEN, FakeBroker, make_rank

Visit = Callable[[FakeBroker], None]

ROUNDS = 10


def forget(broker: FakeBroker) -> None:
    """Drop a connection that was never closed."""
    assert len(dbg_client.connect(address(broker)).ranks) == 1


def close(broker: FakeBroker) -> None:
    """Close a connection."""
    with dbg_client.connect(address(broker)) as connection:
        assert len(connection.ranks) == 1


def lose(broker: FakeBroker) -> None:
    """Drop a connection that broke."""
    connection = dbg_client.connect(address(broker))
    broker.cut()
    assert len(connection.ranks) == 1


def ask_as_an_agent(broker: FakeBroker) -> None:
    """Have the server of an agent list the ranks."""
    said: list[dict[str, Any]] = []
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ranks", "arguments": {}}}

    async def visit() -> None:
        server = McpServer(
            lambda program: open_broker(address(broker), seconds(30), program=program),
            lambda line: said.append(json.loads(line)),
        )
        await server.receive(json.dumps(call).encode())
        await within(seconds(30), asyncio.gather(*server._open._tasks.values()))
        await server.end()

    asyncio.run(visit())
    assert "gpu013" in said[0]["result"]["content"][0]["text"]


def attach_an_ide(broker: FakeBroker) -> None:
    """Attach an IDE, and let it go."""

    async def visit() -> None:
        shown = Shown()
        adapter = Adapter(lambda name: switchboard_to(address(broker), seconds(30), program=name), None, shown.take)
        adapter.receive(Request(1, "attach", {"target": "all"}))
        assert (await shown.answer(1))["success"]
        await adapter.close()

    asyncio.run(visit())


def address(broker: FakeBroker) -> str:
    return f"ws://127.0.0.1:{broker.port}"


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names alone


@pytest.mark.parametrize("visit", [forget, close, lose, ask_as_an_agent, attach_an_ide])
def test_ten_brokers_that_were_left_keep_no_descriptor_and_no_thread(
    visit: Visit, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**environ, "DBG_TOKEN": TOKEN}.items():
        monkeypatch.setenv(name, value)
    with FakeBroker(make_rank(0)) as first:
        # What is made once for a process is there from now on.
        visit(first)
    gc.collect()
    threads, before = set(threading.enumerate()), descriptors()
    with FakeBroker(make_rank(0)) as one, FakeBroker(make_rank(1)) as two:
        brokers = {one._thread, two._thread}
        for number in range(ROUNDS):
            visit((one, two)[number % 2])
        gc.collect()
        for thread in set(threading.enumerate()) - threads - brokers:
            thread.join(seconds(20))
        assert set(threading.enumerate()) - brokers <= threads
    assert descriptors() <= before
