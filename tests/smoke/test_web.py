"""The page's server beside a real rank and a real terminal, without a browser."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.pages import EncodedAnswer, Socket, key_of, page, run
from tests.support.processes import Processes
from tests.support.pudb_terminal import sit_in_pudb, wait_for_line
from tests.support.ranks import start_ranks, wait_until_stopped
from tests.support.straight import STOP, STRAIGHT
from tests.support.time_unit import seconds

pytestmark = pytest.mark.timeout(seconds(120))


async def until_line(terminal: Socket, line: int) -> EncodedAnswer:
    return await terminal.until("state", lambda state: f":{line} " in state["place"])


def test_the_keyboard_moves_from_the_page_to_a_terminal_and_back(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, STRAIGHT, 1)
    wait_until_stopped(home, 1)

    async def work() -> None:
        async with page(processes, home, "--drive") as (browser, _), browser.terminal(await key_of(browser)) as in_page:
            await in_page.until("state", lambda state: state["driving"] and state["kind"] == "screen")
            await in_page.until_bytes(b"PuDB")
            await in_page.socket.send_bytes(b"nn")
            await until_line(in_page, STOP + 2)
            terminal = await asyncio.to_thread(sit_in_pudb, open_terminal, "--take", "0", rows=30)
            taken = await in_page.until("state", lambda state: not state["driving"])
            assert taken["driver"]
            terminal.send("n")
            await asyncio.to_thread(wait_for_line, terminal, STOP + 3)
            await until_line(in_page, STOP + 3)
            # Keys of one who only watches have no effect, and taking the keyboard back gives them one.
            await in_page.socket.send_bytes(b"n")
            await in_page.until("bell")
            await in_page.send("take")
            await in_page.until("state", lambda state: state["driving"])
            await in_page.socket.send_bytes(b"n")
            await until_line(in_page, STOP + 4)
            await asyncio.to_thread(wait_for_line, terminal, STOP + 4)
            # The page's size is the debugger's now that the page drives.
            await in_page.send("size", rows=40, columns=132)
            await in_page.until("state", lambda state: state["size"] == [40, 132])
            await in_page.send("release")
            await in_page.until("state", lambda state: not state["driver"])

    run(work)
