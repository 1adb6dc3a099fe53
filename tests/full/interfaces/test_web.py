"""The page's server beside real ranks and terminals: keys, the keyboard handed over, restarts, who may do what."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.support.broker import running_broker
from tests.support.pages import key_of, line_in, page, run
from tests.support.processes import Processes
from tests.support.ranks import attach, start_ranks, wait_until_states, wait_until_stopped
from tests.support.straight import STOP, STRAIGHT
from tests.support.time_unit import seconds

pytestmark = pytest.mark.timeout(seconds(120))


def test_questions_and_news_of_several_ranks(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, STRAIGHT, 3)
    wait_until_states(home, dict.fromkeys(range(3), "stopped"))

    async def work() -> None:
        async with page(processes, home, "--drive") as (browser, _), browser.live() as live:
            rows = await live.rows()
            listed = json.loads((await asyncio.to_thread(attach, home, "list", "--json")).stdout)["ranks"]
            assert [{name: rows[one["rank"]][name] for name in one} for one in listed] == listed
            shown = json.loads((await asyncio.to_thread(attach, home, "eval", "all", "n", "--json")).stdout)
            assert (await live.answer(1, "eval all n"))["document"] == shown
            moved = await live.answer(2, "command n", keys=[rows[1]["key"]])
            assert moved["document"]["answered"] == 1
            moved_to = 1, STOP + 1
            await live.once("change", lambda said: moved_to in [(row["rank"], line_in(row)) for row in said["rows"]])
            await live.say("source", id=3, key=rows[0]["key"], file=rows[0]["where"]["file"], line=STOP, around=5)
            lines = await live.until("lines")
            assert "set_trace()" in lines["lines"][STOP - lines["first"]]
            assert (await live.answer(4, "continue 2"))["document"]["answered"] == 1
            event = await live.once("event", lambda said: said["kind"] in ("goes_on", "exit"))
            assert event["ranks"] == "2"
            await asyncio.to_thread(attach, home, "eval", "1", "n + 100")
            event = await live.until("event", lambda said: said["kind"] == "asked" and said["text"] == "eval n + 100")
            assert (event["ranks"], "(web)" in event["who"]) == ("1", False)

    run(work)


pytestmark = pytest.mark.timeout(seconds(120))


@pytest.mark.parametrize(("role", "arguments"), [("watcher", ("--drive",)), ("driver", ())])
def test_a_page_that_may_only_look_changes_nothing(
    processes: Processes, home: Path, role: str, arguments: tuple[str, ...]
) -> None:
    broker = running_broker(processes, home)
    start_ranks(processes, home, STRAIGHT, 1)
    wait_until_stopped(home, 1)
    variables = {"DBG_TOKEN": broker.tokens[role], "DBG_BROKER": f"{broker.url}#{broker.rendezvous['fingerprint']}"}

    async def work() -> None:
        async with (
            page(processes, home, *arguments, env=variables) as (browser, _),
            browser.live() as live,
            browser.terminal(await key_of(browser), "take") as terminal,
        ):
            assert (await live.until("hello"))["drive"] is False
            await terminal.until_bytes(b"PuDB")
            await terminal.socket.send_bytes(b"n")
            await terminal.until("bell")
            await terminal.say("take")
            await terminal.until("bell")
            for number, line in enumerate(("eval 0 n", "command 0 n", "continue 0", "kill 0", "interrupt 0")):
                said = await live.answer(number, line, yes=True)
                assert said["type"] == "failed", line
            where = await live.answer(9, "where")
            assert where["document"]["groups"][0]["frames"][-1]["line"] == STOP

    run(work)
    assert attach(home, "eval", "0", "n").stdout.endswith("0\n")
