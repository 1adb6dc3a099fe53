"""One window on real ranks: looks, values, moves, the keyboard, the console, and what is refused."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import dbg_client
from dbg_agent.stop.stops import NOTHING_MOVES
from dbg_client.api.stop import AsyncStop, KeyboardTaken
from dbg_client.core.switchboard import switchboard_to
from dbg_client.faces.dap import listing
from dbg_client.faces.dap.adapter import Adapter
from dbg_client.faces.dap.messages import Message, Request
from dbg_dial.waiting import within
from tests.support.broker import RunningBroker, running_broker
from tests.support.environment import clean_environment
from tests.support.processes import Processes
from tests.support.ranks import attach, start_ranks, wait_until_states
from tests.support.time_unit import seconds

TRAIN = """\
import dbg_agent, os, time
dbg_agent.install(post_mortem=True)
rank = int(os.environ["RANK"])
loss = 0.25 if rank else 0.75
class Lazy:
    @property
    def computed(self): return loss
def step(scale):
    parts = {"x": [1, 2, 3], "y": scale}
    many = list(range(450)); lazy = Lazy()
    dbg_agent.set_trace()
    total = loss * scale
    time.sleep(0.6)
    total += 1
    return total
step(rank + 1)
dbg_agent.set_trace()
while not os.path.exists("go"):
    time.sleep(0.05)
raise ValueError("\\x1b[2J no more")
"""

SET_TRACE, FIRST, SLOW, AFTER = 11, 12, 13, 14
"""Lines of the program."""


class Ide:
    """Speaks to an adapter, and remembers what it says."""

    def __init__(self, home: Path, **variables: str) -> None:
        environment = {**clean_environment({}, home), "DBG_HOME": str(home), **variables}
        self._numbers = count(1)
        self._came = asyncio.Event()
        self.said: list[Message] = []
        self.adapter = Adapter(
            lambda name: switchboard_to(None, seconds(20), environment, program=name), None, self._take
        )

    def _take(self, message: Message) -> None:
        self.said.append(message)
        self._came.set()

    async def wait(self, wanted: Callable[[Message], bool], begin: int = 0) -> Message:
        """Return the first message of this kind among those behind the first ``begin``."""

        async def found() -> Message:
            while True:
                self._came.clear()
                for message in self.said[begin:]:
                    if wanted(message):
                        return message
                await self._came.wait()

        return await within(seconds(30), found())

    async def ask(self, command: str, **arguments: object) -> Any:
        """Return the body of a response; fail if the request is refused."""
        answer = await self._answer(command, arguments)
        assert answer["success"], answer
        return answer.get("body")

    async def refusal(self, command: str, **arguments: object) -> str:
        """Return the sentence with which a request is refused."""
        answer = await self._answer(command, arguments)
        assert not answer["success"], answer
        return str(answer["message"])

    async def _answer(self, command: str, arguments: Message) -> Message:
        number = next(self._numbers)
        self.adapter.receive(Request(number, command, arguments))
        return await self.wait(lambda message: message.get("request_seq") == number)

    async def stop_after(self, command: str, thread: int, **arguments: object) -> Message:
        """Have a thread move; return what is told of its next stop."""
        begin = len(self.said)
        await self.ask(command, threadId=thread, **arguments)
        return await self.stopped(thread, begin)

    async def stopped(self, thread: int, begin: int = 0) -> Message:
        """Return what is told of the next stop of a thread."""
        event = await self.wait(lambda one: one.get("event") == "stopped" and one["body"]["threadId"] == thread, begin)
        return dict(event["body"])

    async def top(self, thread: int) -> Message:
        """Return the innermost frame of a thread."""
        return dict((await self.ask("stackTrace", threadId=thread))["stackFrames"][0])

    async def type(self, text: str, frame: object = None) -> str:
        """Return what the debug console answers."""
        more = {} if frame is None else {"frameId": frame}
        return str((await self.ask("evaluate", expression=text, context="repl", **more))["result"])


@asynccontextmanager
async def window(home: Path, **variables: str) -> AsyncIterator[tuple[Ide, dict[str, int]]]:
    """Yield an IDE whose window is attached to all ranks, and its threads by their names."""
    ide = Ide(home, **variables)
    await ide.ask("initialize", clientName="Visual Studio Code", supportsInvalidatedEvent=True)
    await ide.ask("attach", target="all")
    await ide.wait(lambda one: one.get("event") == "initialized")
    await ide.ask("configurationDone")
    await ide.wait(lambda one: one.get("event") == "stopped")
    try:
        threads = (await ide.ask("threads"))["threads"]
        yield ide, {one["name"].rpartition(":")[2]: one["id"] for one in threads}
        await ide.ask("disconnect")
        assert ide.adapter.ended.is_set()
    finally:
        await ide.adapter.close()


def test_a_window_looks_moves_hands_over_and_leaves(
    processes: Processes, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBG_HOME", str(home))
    # This user continues a rank in the moment in which it stops.
    monkeypatch.setattr(listing, "TYPED_SECONDS", 0.0)
    broker = running_broker(processes, home)
    ranks = start_ranks(processes, home, TRAIN, 3, env={"CI": "", "DBG_LEASE": "600"})
    wait_until_states(home, dict.fromkeys(range(3), "stopped"))

    async def all_of_it() -> None:
        async with window(home) as (ide, threads):
            await look(ide, threads["1"], home)
            await ask_many(ide, home)
            await move(ide, threads["1"])
            await hand_over(ide, threads["1"])
            await crash(ide, threads["1"])
            await lose_the_broker(ide, threads["1"], broker, home)
        async with window(home, DBG_TOKEN=broker.tokens["watcher"]) as (ide, threads):
            await only_look(ide, threads["0"])

    asyncio.run(all_of_it())
    # The window is gone, and every rank is where it was.
    listed = wait_until_states(home, dict.fromkeys(range(3), "stopped"))
    assert [one["driver"] for one in listed] == [None] * 3
    # A rank that is kept after a crash outlives SIGTERM for a while.
    ranks[1].kill()


async def look(ide: Ide, thread: int, home: Path) -> None:
    stops = [one["body"] for one in ide.said if one.get("event") == "stopped"]
    assert [stop["preserveFocusHint"] for stop in stops] == [False, True, True]
    assert {stop["allThreadsStopped"] for stop in stops} == {False}
    top = await ide.top(thread)
    assert (top["name"], top["line"], top["column"]) == ("step", SET_TRACE, 1)
    local, shared = [one["variablesReference"] for one in (await ide.ask("scopes", frameId=top["id"]))["scopes"]]
    rows = {one["name"]: one for one in (await ide.ask("variables", variablesReference=local))["variables"]}
    assert rows["scale"]["value"] == "2"
    assert "loss" in {one["name"] for one in (await ide.ask("variables", variablesReference=shared))["variables"]}
    many = rows["many"]["variablesReference"]
    page = await ide.ask("variables", variablesReference=many, filter="indexed", start=440, count=5)
    assert [one["value"] for one in page["variables"]] == ["440", "441", "442", "443", "444"]
    assert len((await ide.ask("variables", variablesReference=many))["variables"]) == 450
    (lazy,) = (await ide.ask("variables", variablesReference=rows["lazy"]["variablesReference"]))["variables"]
    assert lazy["presentationHint"]["lazy"]
    (read,) = (await ide.ask("variables", variablesReference=lazy["variablesReference"]))["variables"]
    assert read["value"] == "0.25"
    # The same text as in the terminal.
    shown = (await ide.ask("evaluate", expression="parts", context="hover", frameId=top["id"]))["result"]
    assert attach(home, "eval", "1", "parts").stdout.endswith(f"  {shown}\n")
    assert "ZeroDivisionError: division by zero" in await ide.refusal("evaluate", expression="1/0", frameId=top["id"])
    changed = await ide.ask("setVariable", variablesReference=local, name="scale", value="[7]")
    assert changed["value"] == "[7]"
    assert await ide.type("scale; scale = 2; print(scale)", top["id"]) == "2"
    assert [one["label"] for one in (await ide.ask("completions", text="parts.ke", column=9))["targets"]] == ["keys"]
    offered = (await ide.ask("completions", text="wh", column=3))["targets"]
    assert [one["label"] for one in offered][:2] == ["where", "why"]
    assert "exception" in await ide.refusal("exceptionInfo", threadId=thread)
    assert "no file" in await ide.refusal("source", sourceReference=99)
    for text in ("x" * 17_000, "\ud800"):
        wanted = "no text in UTF-8" if len(text) == 1 else "16384"
        for context in ("repl", "watch"):
            asked = {"expression": text, "frameId": top["id"], "context": context}
            assert re.search(wanted, await ide.refusal("evaluate", **asked))
        assert re.search(wanted, await ide.refusal("setVariable", variablesReference=local, name="scale", value=text))
        found = await ide.ask("completions", text=text, column=len(text) + 1, frameId=top["id"])
        assert found == {"targets": []}
    for text in ("x" * 17_000, "\ud800"):
        # It isn't cut: a part of an expression is another expression.
        assert "the text of this question" in await ide.refusal("evaluate", expression=f"all: {text}", context="repl")
    assert await ide.type("'" + "\u00e9" * 3 + "'", top["id"]) == "'\u00e9\u00e9\u00e9'"
    await ide.refusal("evaluate", expression=" ", context="repl")
    assert "attached already" in await ide.refusal("attach", target="all")
    assert "not there any more" in await ide.refusal("stackTrace", threadId=999)
    for request in ("restartFrame", "terminate", "launch", "stepBack", "goto"):
        assert "; " in await ide.refusal(request)


def ageless(text: str) -> str:
    """Return stacks without for how long ranks have been where they are."""
    return re.sub(r"(, the longest)? for \d+ s", "", text).rstrip("\n")


async def ask_many(ide: Ide, home: Path) -> None:
    assert await ide.type("all: loss") == attach(home, "eval", "all", "loss").stdout.rstrip("\n")
    assert "0.75" in await ide.type("@2: loss")
    assert ageless(await ide.type("where all")) == ageless(attach(home, "where", "all").stdout)
    assert "debugger" in await ide.type("why")
    assert "RANKS: EXPRESSION" in await ide.type("help")
    assert "write `pause all`" in await ide.refusal("evaluate", expression="pause", context="repl")
    assert "@9" in await ide.refusal("evaluate", expression="@9: loss", context="repl")


async def move(ide: Ide, thread: int) -> None:
    old = await ide.top(thread)
    told = await ide.stop_after("next", thread)
    # No debugger was open yet: its opening leads from the call of set_trace() to the next line.
    assert (told["reason"], told["preserveFocusHint"]) == ("step", False)
    assert (await ide.top(thread))["line"] == FIRST
    await ide.refusal("scopes", frameId=old["id"])
    await ide.stop_after("next", thread)
    # A step that takes longer than the rank is silent about.
    assert (await ide.stop_after("next", thread))["reason"] == "step"
    assert (await ide.top(thread))["line"] == AFTER


async def hand_over(ide: Ide, thread: int) -> None:
    async with dbg_client.aconnect(timeout=seconds(20)) as broker:
        with pytest.raises(KeyboardTaken, match=r"\(VS Code\) types at"):
            async with broker.job()[1].attach():
                pass
        begin = len(ide.said)
        async with broker.job()[1].attach(take=True) as stop:
            told = await ide.wait(lambda one: one.get("event") == "output", begin)
            assert "has taken the keyboard" in told["body"]["output"]
            for request in ("next", "continue"):
                assert "types at" in await ide.refusal(request, threadId=thread)
            begin = len(ide.said)
            await stop.next()
            assert (await ide.stopped(thread, begin))["reason"] == "step"
            assert "has the keyboard" in await ide.type("take")
            await until_lost(stop)
            with pytest.raises(KeyboardTaken):
                await stop.next()
        assert "is free" in await ide.type("give")
        assert "is free" not in await ide.type("give")


async def until_lost(stop: AsyncStop) -> None:
    """Wait until a program knows that it has lost the keyboard: the broker tells both sides, one before the other."""
    with suppress(KeyboardTaken):
        while True:
            await stop.command("p loss")


async def crash(ide: Ide, thread: int) -> None:
    assert (await ide.stop_after("continue", thread))["reason"] == "breakpoint"
    begin = len(ide.said)
    await ide.ask("continue", threadId=thread)
    assert "is running" in await ide.refusal("stackTrace", threadId=thread)
    assert (await ide.stop_after("pause", thread))["reason"] == "pause"
    begin = len(ide.said)
    await ide.type("pathlib = __import__('pathlib'); pathlib.Path('go').touch()", (await ide.top(thread))["id"])
    await ide.ask("continue", threadId=thread)
    told = await ide.stopped(thread, begin)
    assert (told["reason"], told["text"]) == ("exception", "ValueError: \\x1b[2J no more")
    info = await ide.ask("exceptionInfo", threadId=thread)
    assert (info["exceptionId"], info["description"]) == ("ValueError", "\\x1b[2J no more")
    assert info["breakMode"] == "unhandled"
    begin = len(ide.said)
    await ide.ask("next", threadId=thread)
    refused = await ide.wait(lambda one: one.get("event") == "output", begin)
    assert NOTHING_MOVES in refused["body"]["output"]
    assert (await ide.stopped(thread, begin))["reason"] == "exception"


async def lose_the_broker(ide: Ide, thread: int, broker: RunningBroker, home: Path) -> None:
    frame, begin = (await ide.top(thread))["id"], len(ide.said)
    broker.kill()
    await ide.wait(lambda one: one.get("event") == "output" and "is gone" in one["body"]["output"], begin)
    await ide.refusal("evaluate", expression="1", frameId=frame)
    broker.restart()
    back = await ide.wait(lambda one: one.get("event") == "output" and "is back" in one["body"]["output"], begin)
    assert back["body"]["category"] == "console"
    # The ranks come back one by one, and are the same threads at the same stops.
    await asyncio.to_thread(wait_until_states, home, dict.fromkeys(range(3), "stopped"))
    assert (await ide.top(thread))["id"] == frame
    assert [one for one in ide.said[begin:] if one.get("event") in ("thread", "stopped", "continued")] == []


async def only_look(ide: Ide, thread: int) -> None:
    top = await ide.top(thread)
    assert top["name"] == "step"
    for request in ("next", "continue", "pause"):
        assert "refused" in await ide.refusal(request, threadId=thread)
    assert "refused" in await ide.refusal("evaluate", expression="loss", frameId=top["id"])
    assert "where" in await ide.type("where all")
