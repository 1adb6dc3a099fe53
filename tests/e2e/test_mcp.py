"""A coding agent's client, the protocol's own library, uses the tools on real ranks."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import Implementation, TextContent

from dbg_client.api.breakpoints import REMOVED
from dbg_client.mcp.tools import TOOLS
from dbg_dial.tcp import within
from tests.support.broker import running_broker
from tests.support.environment import clean_environment
from tests.support.processes import Processes
from tests.support.ranks import attach, start_ranks, wait_until_states
from tests.support.time_unit import seconds

TRAIN = """\
import dbg_agent, os
rank = int(os.environ["RANK"])
loss = 0.25 if rank else 0.75
long = "\\n".join(map(str, range(1000)))
dbg_agent.set_trace()
loss += 1
dbg_agent.set_trace()
os.kill(os.getpid(), 9)
"""


@asynccontextmanager
async def agent(home: Path, variables: Mapping[str, str] = {}, name: str = "tests") -> AsyncIterator[ClientSession]:
    """Start the server as an agent of this name does, and shake hands."""
    environment = {**clean_environment({}, home), "DBG_HOME": str(home), **variables}
    server = StdioServerParameters(command=sys.executable, args=["-m", "dbg_client", "mcp"], env=environment)
    client = Implementation(name=name, version="1")
    async with stdio_client(server) as streams, ClientSession(*streams, client_info=client) as session:
        await session.initialize()
        yield session


async def call(session: ClientSession, name: str, **given: object) -> str:
    """Return the text that a tool answers, with a mark if it is an error."""
    result = await within(seconds(30), session.call_tool(name, given))
    (content,) = result.content
    assert isinstance(content, TextContent)
    return f"ERROR {content.text}" if result.is_error else content.text


def test_an_agent_asks_steps_and_continues_ranks(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, TRAIN, 3)
    wait_until_states(home, dict.fromkeys(range(3), "stopped"))
    asyncio.run(look(home))
    asyncio.run(step(home))
    assert ranks[1].wait(seconds(20)) == -9
    # The agent has gone, and rank 0 stays where it was.
    assert attach(home, "eval", "0", "loss").stdout.endswith("0.75\n")


def ageless(tree: str) -> str:
    """Return a tree without the durations of waits, which are shown from the first second on."""
    return re.sub(r"(, the longest)? for \d+ s", "", tree).rstrip("\n")


async def look(home: Path) -> None:
    async with agent(home) as session:
        assert [tool.name for tool in (await session.list_tools()).tools] == [tool.name for tool in TOOLS]
        assert (await call(session, "ranks")).count("stopped") == 3
        assert await call(session, "eval", expression="loss") == attach(home, "eval", "all", "loss").stdout.rstrip("\n")
        assert "0.75" in await call(session, "eval", expression="loss", ranks="@2")
        assert ageless(await call(session, "where")) == ageless(attach(home, "where", "all").stdout)
        assert "ZeroDivisionError: division by zero" in await call(session, "eval", expression="1/0", ranks="0")
        assert (await call(session, "eval", expression="loss", ranks="77")).startswith("ERROR no rank")
        assert "`expression`" in await call(session, "eval")
        assert "more lines" in await call(session, "command", command="!print(long)", ranks="1")


async def step(home: Path) -> None:
    async with agent(home) as session:
        answer = await call(session, "breakpoints", line=6, ranks="0")
        assert answer.startswith("breakpoint /"), answer
        assert answer.endswith("rank_script.py:6: 1 of 1 rank answered, 1 value\n@1  1 rank  0  set"), answer
        assert (await call(session, "breakpoints", file="rank_script.py", line=90)).count("error") == 1
        assert "rank_script.py:6" in await call(session, "breakpoints", ranks="0")
        assert REMOVED in await call(session, "breakpoints", ranks="0", line=6, clear=True)
        await call(session, "continue", ranks="1-2")
        assert "rank_script.py:7" in await call(session, "wait_for_stop", ranks="1", seconds=seconds(20))
        await call(session, "continue", ranks="1")
        await within(seconds(20), wait_for_end_of_rank_1(session))


async def wait_for_end_of_rank_1(session: ClientSession) -> None:
    # Without a guard nothing could report the signal.
    while not re.search(r":1 (died|was killed by SIGKILL)", await call(session, "eval", expression="1", ranks="1")):
        pass


def test_a_watcher_token_changes_no_rank(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, TRAIN, 1)
    wait_until_states(home, {0: "stopped"})
    asyncio.run(watch(home))
    wait_until_states(home, {0: "stopped"})


async def watch(home: Path) -> None:
    async with agent(home, {"DBG_TOKEN_FILE": str(home / "tokens" / "watcher")}) as session:
        assert "stopped" in await call(session, "where")
        assert "read-only" in await call(session, "continue")
