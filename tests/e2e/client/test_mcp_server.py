"""Each request of a client is answered once, whatever is in it, and the server goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dbg_client.mcp.tools import TOOLS
from tests.unit.client.fake_broker import FakeBroker
from tests.unit.client.mcp.test_server import Client

ODD: dict[str, list[object]] = {
    "string": ["", "\0", "\ud800", "x" * 100_000],
    "integer": [10**20, -(10**20)],
    "number": [10**20, -1, float("inf"), float("nan")],
    "boolean": [True],
    "array": [["\0"], ["\ud800"], ["x" * 3_000_000]],
}
"""Values of each type that no tool expects."""

USUAL: dict[str, object] = {"expression": "loss", "command": "n", "ranks": "5", "rank": "5", "seconds": 0.2}


def _type_of(schema: dict[str, Any]) -> str:
    """Return the type of a field; of an optional one that of its value, of a choice that of a text."""
    return str(schema.get("anyOf", [schema])[0].get("type", "string"))


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_odd_arguments_are_not_answered_as_a_bug(tool: Any, broker: FakeBroker) -> None:
    async def calls() -> None:
        client = Client()
        takes = tool.document()["inputSchema"]["properties"]
        usual = {name: value for name, value in USUAL.items() if name in takes}
        for name, schema in takes.items():
            for value in ODD[_type_of(schema)]:
                text = await client.call(tool.name, {**usual, name: value})
                assert "a bug of" not in text, (name, str(value)[:60], text)
        await client.server.end()

    asyncio.run(calls())
