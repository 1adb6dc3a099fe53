"""The page's server beside real ranks and terminals: keys, the keyboard handed over, restarts, who may do what."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker import running_broker
from tests.support.pages import key_of, page, run
from tests.support.processes import Processes
from tests.support.ranks import attach, start_ranks, wait_until_stopped
from tests.support.straight import STOP, STRAIGHT
from tests.support.time_unit import seconds

pytestmark = pytest.mark.timeout(seconds(120))


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
