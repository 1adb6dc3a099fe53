"""MCP server: reads calls from stdin, runs tools, and writes the answers to stdout."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from dbg_client.api.broker import AsyncBroker, open_broker
from dbg_client.core.errors import bug
from dbg_client.core.requests import OpenRequests, sentence_of
from dbg_client.core.switchboard import WATCHER
from dbg_client.mcp import protocol
from dbg_client.mcp.tools import TOOLS, TOOLS_OF_COMMANDS, short_answer
from dbg_client.verbs.verb import BrokerOptions
from dbg_wire import RELEASE
from dbg_wire.errors import BadInput

MAX_LINE = 1024 * 1024
"""Maximum length of a client's line, in bytes; an expression or a command is far shorter."""

MAX_AT_ONCE = 16
"""Maximum concurrent calls; a model makes a few."""

INSTRUCTIONS = (
    "These tools inspect a distributed training job: each rank is one Python process of it. For a hang, call `why` "
    "first. `ranks`, `where` and `why` change nothing. A rank that you stop stays stopped, and others wait for it. "
    "When you are done, clear the breakpoints that you have set, and continue the ranks that you have stopped."
)

LOOKS = "use `ranks`, `where`, `why`, `slow` and `collectives`"

PROGRESS_SECONDS = 10.0
"""Interval of progress notifications, in seconds: clients abandon a call after 60 s without a message."""

Write = Callable[[bytes], None]
Connect = Callable[[str], Awaitable[AsyncBroker]]
"""Function that connects to the broker; the argument is the program name that other users see."""


class McpServer:
    """Handler of one client's calls. Connects to the broker at the first tool call; belongs to one event loop."""

    def __init__(self, connect: Connect, write: Write) -> None:
        self._connect = connect
        self._write = write
        self._broker: AsyncBroker | None = None
        self._client = "agent"
        self._dialling = asyncio.Lock()
        self._open = OpenRequests(MAX_AT_ONCE, "call")

    async def receive(self, line: bytes) -> None:
        """Handle a line of the client. Tool calls continue after this returns."""
        try:
            call = protocol.read_call(line)
        except protocol.BadCall as bad:
            self._write(protocol.error_line(bad.request, bad.code, bad.text))
            return
        if call is None:
            return
        try:
            await self._receive(call)
        except Exception as error:
            # Regardless of the error, answer this call and continue the client's other calls.
            if call.id is not None:
                self._write(protocol.error_line(call.id, protocol.INTERNAL_ERROR, bug(error)))

    async def _receive(self, call: protocol.Call) -> None:
        if call.id is None:
            self._notified(call)
        elif call.method == "tools/call":
            # Run the call as a task, because it may wait for the broker; pings and cancellations are handled meanwhile.
            request = call.id
            if why_not := self._open.start(request, lambda: self._call(call, request)):
                self._write(protocol.error_line(request, protocol.INVALID_REQUEST, why_not))
        else:
            self._write(self._answer(call, call.id))

    async def end(self) -> None:
        """Cancel open calls, and disconnect from the broker."""
        await self._open.close()
        if self._broker is not None:
            await self._broker.close()

    def _answer(self, call: protocol.Call, request: protocol.RequestId) -> bytes:
        if call.method == "initialize":
            self._client = _client_name(call.params.get("clientInfo")) or self._client
            return protocol.result_line(
                request,
                {
                    "protocolVersion": protocol.agreed_version(call.params.get("protocolVersion")),
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "dbg-attach", "title": "Ranks of a training job", "version": RELEASE},
                    "instructions": INSTRUCTIONS,
                },
            )
        if call.method == "ping":
            return protocol.result_line(request, {})
        if call.method == "tools/list":
            return protocol.result_line(request, {"tools": [tool.document() for tool in TOOLS]})
        problem = f"this server has no method {call.method[:60]!r}"
        return protocol.error_line(request, protocol.METHOD_NOT_FOUND, problem)

    def _notified(self, call: protocol.Call) -> None:
        if call.method == "notifications/cancelled":
            request = call.params.get("requestId")
            if isinstance(request, (str, int)):
                self._open.cancel(request)

    async def _call(self, call: protocol.Call, request: protocol.RequestId) -> None:
        name, given = call.params.get("name"), call.params.get("arguments") or {}
        token = protocol.progress_token(call.params)
        reporting = asyncio.create_task(self._report_progress(token)) if token is not None else None
        try:
            if not isinstance(given, dict):
                raise protocol.BadCall(protocol.INVALID_PARAMS, "the arguments are not an object", request)
            result = protocol.text_result(await self._do(name, given))
        except protocol.BadCall as bad:
            self._write(protocol.error_line(request, bad.code, bad.text))
            return
        except Exception as error:
            # Return errors as the tool's answer, so that the model reads them and can correct its call.
            result = protocol.text_result(sentence_of(error, TOOLS_OF_COMMANDS), is_error=True)
        finally:
            if reporting is not None:
                reporting.cancel()
        self._write(protocol.result_line(request, result))

    async def _report_progress(self, token: protocol.RequestId) -> None:
        """Report periodically to the client that a call is still open."""
        start = time.monotonic()
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            seconds = round(time.monotonic() - start, 3)
            self._write(protocol.progress_line(token, seconds, f"no answer after {seconds:.0f} s, waiting"))

    async def _do(self, name: object, given: dict[str, Any]) -> str:
        tool = next((tool for tool in TOOLS if tool.name == name), None)
        if tool is None:
            raise protocol.BadCall(protocol.INVALID_PARAMS, f"there is no tool {str(name)[:60]!r}")
        call, broker = tool.read(given), await self._connected()
        if tool.changes and broker.role == WATCHER:
            raise BadInput(f"this server's token is read-only, and {tool.name} may touch a rank", LOOKS)
        return short_answer(await call.do(broker))

    async def _connected(self) -> AsyncBroker:
        async with self._dialling:
            if self._broker is None:
                self._broker = await self._connect(self._client)
            return self._broker


def _client_name(info: object) -> str:
    """Return the client's own name, which other users will see."""
    name = info.get("name") if isinstance(info, dict) else None
    return name.strip() if isinstance(name, str) else ""


async def serve_mcp(options: BrokerOptions) -> int:
    """Serve one client on stdin and stdout until stdin ends; return the exit status."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_LINE)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    output = sys.stdout.fileno()
    server = McpServer(
        lambda program: open_broker(options.address, options.timeout, program=program),
        lambda line: _write_all(output, line),
    )
    try:
        while line := await _next_line(reader):
            if line.strip():
                await server.receive(line)
    finally:
        transport.close()
        await server.end()
    return 0


async def _next_line(reader: asyncio.StreamReader) -> bytes:
    """Return the next line, or b"" at EOF; a line that is too long is replaced by text that is not JSON."""
    try:
        return await reader.readline()
    except ValueError:
        return b"a line of more than a mebibyte\n"


def _write_all(descriptor: int, line: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        while line:
            try:
                line = line[os.write(descriptor, line) :]
            except BlockingIOError:
                # Wait for stdout: it is non-blocking, like stdin, if both are the same socket.
                select.select([], [descriptor], [])
