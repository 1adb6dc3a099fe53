"""A page's side of ``dbg-attach web``: HTTP requests and WebSockets as a browser makes them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientWebSocketResponse, CookieJar, DummyCookieJar, WSMsgType

from dbg_client.core.switchboard import switchboard_to
from dbg_client.web.serve import Access, PageServer, listen
from dbg_client.why.explain import SavedJob
from dbg_command.targets import parse_target
from dbg_dial.tcp import within
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import USUAL_WAIT, Child, Processes
from tests.support.ranks import start_ranks, wait_until_states
from tests.support.time_unit import seconds

EncodedAnswer = dict[str, Any]

ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)/\?token=([\w-]+)")


class Socket:
    """A WebSocket of a page. Texts are read one after the other; ``bytes`` are those that came among them."""

    def __init__(self, socket: ClientWebSocketResponse[bool]) -> None:
        self.socket = socket
        self.bytes = b""
        self.messages: list[EncodedAnswer] = []
        self.code = 0
        """The code of the server's close."""

    async def send(self, kind: str, **fields: object) -> None:
        await self.socket.send_str(json.dumps({"type": kind, **fields}))

    async def next(self) -> EncodedAnswer | None:
        """Return the next text; None for bytes and at the end."""
        message = await within(seconds(USUAL_WAIT), self.socket.receive())
        if message.type is WSMsgType.CLOSE:
            self.code = message.data
        if message.type is WSMsgType.BINARY:
            self.bytes += message.data
        if message.type is not WSMsgType.TEXT:
            return None
        messages: EncodedAnswer = json.loads(message.data)
        self.messages.append(messages)
        return messages

    async def until(self, kind: str, fits: Callable[[EncodedAnswer], bool] = lambda messages: True) -> EncodedAnswer:
        while not self.socket.closed:
            messages = await self.next()
            if messages is not None and messages["type"] == kind and fits(messages):
                return messages
        raise AssertionError(f"no {kind} came before the end ({self.code}): {self.messages[-8:]}")

    async def once(self, kind: str, fits: Callable[[EncodedAnswer], bool] = lambda messages: True) -> EncodedAnswer:
        """Return a message of a type that fits, also one that came while another was waited for."""
        there = [messages for messages in self.messages if messages["type"] == kind and fits(messages)]
        return there[0] if there else await self.until(kind, fits)

    async def until_bytes(self, wanted: bytes) -> None:
        while wanted not in self.bytes:
            if self.socket.closed:
                raise AssertionError(f"no {wanted!r} among {self.bytes[-500:]!r}")
            await self.next()

    async def until_end(self) -> int:
        while not self.socket.closed:
            await self.next()
        return self.code

    async def rows(self) -> dict[int, EncodedAnswer]:
        """Return the rows of the first list, by the number of the rank."""
        rows: list[EncodedAnswer] = []
        while True:
            page = await self.until("ranks")
            rows += page["rows"]
            if page["last"]:
                return {row["rank"]: row for row in rows}

    async def answer(self, number: int, line: str, **fields: object) -> EncodedAnswer:
        """Ask, and return the answer, or why there is none."""
        await self.send("ask", id=number, line=line, **fields)
        while True:
            messages = await self.next()
            if (
                messages is not None
                and messages["type"] in ("answer", "failed", "confirm")
                and messages["id"] == number
            ):
                return messages


class Browser:
    """A browser that has been to the page's address."""

    def __init__(self, base: str, session: ClientSession) -> None:
        self.base = base
        self.session = session

    async def status(self, path: str, **headers: str) -> int:
        """Return the status of an answer; redirects are not followed."""
        async with self.session.get(self.base + path, headers=headers, allow_redirects=False) as answer:
            return answer.status

    async def text(self, path: str) -> str:
        async with self.session.get(self.base + path) as answer:
            return await answer.text()

    @asynccontextmanager
    async def live(self) -> AsyncIterator[Socket]:
        async with self.session.ws_connect(f"{self.base}/live", origin=self.base, max_msg_size=0) as socket:
            yield Socket(socket)

    @asynccontextmanager
    async def terminal(
        self, key: str, mode: str = "drive", size: tuple[int, int] | None = (24, 80)
    ) -> AsyncIterator[Socket]:
        address, asked = f"{self.base}/terminal", {"key": key, "mode": mode}
        async with self.session.ws_connect(address, origin=self.base, params=asked, max_msg_size=0) as socket:
            terminal = Socket(socket)
            if size is not None:
                await terminal.send("size", rows=size[0], columns=size[1])
            yield terminal


@asynccontextmanager
async def stranger(base: str) -> AsyncIterator[Browser]:
    """Yield a browser without a cookie that keeps none."""
    async with ClientSession(cookie_jar=DummyCookieJar()) as session:
        yield Browser(base, session)


@asynccontextmanager
async def browser_at(base: str, token: str) -> AsyncIterator[Browser]:
    """Open the address with its token, and yield the browser."""
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
        async with session.get(f"{base}/", params={"token": token}, allow_redirects=False) as answer:
            assert answer.status == 303
        yield Browser(base, session)


@asynccontextmanager
async def served(
    environ: Mapping[str, str],
    *,
    target: str | None = None,
    drive: bool = True,
    hang_seconds: float = 3600.0,
    saved: SavedJob | None = None,
) -> AsyncIterator[tuple[str, Access, PageServer]]:
    """Serve in this process; yield where, who may come, and the server."""
    switchboard = switchboard_to(None, seconds(10), {**os.environ, **environ})
    if saved is None:
        await switchboard.open()
    try:
        listening = listen(0)
        port = int(listening.getsockname()[1])
        access = Access(port, lambda token: None)
        wanted = parse_target(target) if target else None
        server = PageServer(switchboard, wanted, access, drive=drive, hang_seconds=hang_seconds, saved=saved)
        async with server.serving(listening):
            yield f"http://127.0.0.1:{port}", access, server
    finally:
        await switchboard.close()


@asynccontextmanager
async def opened(
    environ: Mapping[str, str], *, target: str | None = None, drive: bool = True
) -> AsyncIterator[Browser]:
    async with (
        served(environ, target=target, drive=drive) as (base, access, _),
        browser_at(base, access.new_token()) as browser,
    ):
        yield browser


def start_web(processes: Processes, home: Path, *arguments: str, env: Mapping[str, str] = {}) -> tuple[Child, str, str]:
    """Start the command; return its process, where the page is, and the token."""
    command = [sys.executable, "-m", "dbg_client", "web", *arguments]
    child = processes.start("web", command, env={**os.environ, "DBG_HOME": str(home), **env})
    found = ADDRESS.search(child.wait_for_output(ADDRESS.pattern, stream="stderr")[0])
    assert found is not None
    return child, found[1], found[2]


def run(work: Callable[[], Any]) -> None:
    asyncio.run(within(seconds(60), work()))


TRAIN = """\
import dbg_agent, os
rank = int(os.environ["RANK"])
loss = 0.25 if rank else float("nan")
evil = "<img src=x onerror='document.title=1'>\\x1b[31m\\x07"
code = compile("def step(f):\\n    return f()\\n", "/tmp/<b>bold.py", "exec")
exec(code)
def main():
    dbg_agent.set_trace()
    first = 1
    second = 2
    third = 3
step(main)
dbg_agent.set_trace()
"""

LINE = 8
"""The line at which the ranks stop."""


def address_of(processes: Processes, home: Path, *arguments: str) -> str:
    _, base, token = start_web(processes, home, *arguments)
    return f"{base}/?token={token}"


def stopped_ranks(processes: Processes, home: Path, count: int, engine: str = "pudb") -> RunningBroker:
    """Start a broker and ranks that stop."""
    broker = running_broker(processes, home)
    start_ranks(processes, home, TRAIN, count, env={"DBG_ENGINE": engine})
    wait_until_states(home, dict.fromkeys(range(count), "stopped"))
    return broker


@asynccontextmanager
async def page(
    processes: Processes, home: Path, *arguments: str, env: Mapping[str, str] = {}
) -> AsyncIterator[tuple[Browser, Child]]:
    child, base, token = await asyncio.to_thread(start_web, processes, home, *arguments, env=env)
    async with browser_at(base, token) as browser:
        yield browser, child


async def key_of(browser: Browser) -> str:
    async with browser.live() as live:
        return str((await live.rows())[0]["key"])
