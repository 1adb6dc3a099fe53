"""Serve IDEs: one on stdin and stdout, or any number on a port of this host's loopback."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TextIO

from dbg_client.core.patience import read_in_thread
from dbg_client.core.remembered_groups import read_target
from dbg_client.core.requests import LOOPBACK, is_same, listen, new_secret
from dbg_client.core.switchboard import Switchboard, switchboard_to
from dbg_client.dap import messages
from dbg_client.dap.adapter import Adapter, Connect
from dbg_client.dap.messages import Message
from dbg_client.shell.streams import tell
from dbg_command.targets import Target
from dbg_dial.tcp import within
from dbg_wire.errors import BadInput

if TYPE_CHECKING:
    from dbg_client.dap.verb import Dap

TOLD_BEFORE_IT = "Secret: "

MAX_UNSENT = 32 * 1024 * 1024
"""Bytes that wait for an IDE that does not read; beyond it the conversation ends, and the ranks stay as they are."""

END_SECONDS = 2.0
"""Seconds for the last messages to a client that has stopped reading."""

MAX_STRANGERS = 8
"""Clients of the port that have not attached; one more has the oldest of them turned away, not the user's IDE."""

STRANGER_SECONDS = 30.0
"""Seconds in which a client has to attach: an IDE does in one."""


MakeAdapter = Callable[[messages.Send], Adapter]


class Conversation:
    """Serve one client; belongs to one event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, make: MakeAdapter) -> None:
        self._reader = reader
        self._writer = writer
        self.send = messages.numbered(self._write)
        self.adapter = make(self.send)

    async def hold(self) -> None:
        """Answer requests until the client has disconnected or is gone; the ranks stay as they are.

        Raises LostFrames for a client that does not speak the protocol, after it is told.
        """
        ended = asyncio.ensure_future(self.adapter.ended.wait())
        reading = asyncio.ensure_future(self._read())
        try:
            await asyncio.wait([ended, reading], return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
        except messages.LostFrames as error:
            self.send(messages.output(str(error), "important"))
            raise
        finally:
            ended.cancel()
            reading.cancel()
            await asyncio.gather(ended, reading, return_exceptions=True)
            await self._end()

    async def _read(self) -> None:
        while (body := await messages.read_body(self._reader)) is not None:
            try:
                request = messages.read_request(body)
            except messages.BadMessage as bad:
                self.send(messages.output(f"a message of this IDE was left out: {bad}", "important"))
                continue
            if request is not None:
                self.adapter.receive(request)

    async def _end(self) -> None:
        await self.adapter.close()
        self.send(messages.event("terminated"))
        self._writer.close()
        try:
            await within(END_SECONDS, self._writer.wait_closed())
        except OSError:
            self._writer.transport.abort()

    def _write(self, message: Message) -> None:
        transport = self._writer.transport
        if transport.is_closing():
            return
        if transport.get_write_buffer_size() > MAX_UNSENT:
            transport.abort()
            return
        transport.write(messages.frame(message))


async def serve_dap(settings: Dap) -> int:
    """Serve IDEs until stdin ends, or for ever on a port; return the exit status. Raises LostFrames or BadInput."""
    broker, target = settings.broker, None
    if settings.target is not None:
        target = await read_in_thread(partial(read_target, settings.target, os.environ), broker.timeout)

    def connect(client: str) -> Switchboard:
        # Users are shown with the IDE that acts.
        return switchboard_to(broker.address, broker.timeout, program=client, logs=True)

    if settings.port is not None:
        await Port(connect, target, "" if settings.no_secret else new_secret()).serve(settings.port)
        return 0
    if sys.stdin.isatty():
        tell("dbg-attach dap is spoken to by an IDE: see `dbg-attach dap --vscode`. Ctrl-D ends it.")
    reader, writer = await _standard_streams()
    await Conversation(reader, writer, partial(Adapter, connect, target)).hold()
    return 0


class Port:
    """The port, the secret that IDEs send, empty for none, and the clients that have not attached."""

    def __init__(self, connect: Connect, target: Target | None, secret: str) -> None:
        self._connect = connect
        self._target = target
        self._secret = secret
        self._strangers: dict[asyncio.StreamWriter, None] = {}

    async def serve(self, number: int) -> None:
        """Listen until cancelled. Raises BadInput for a port that can't be had."""
        async with await asyncio.start_server(self._talk, sock=listen(number)) as server:
            number = int(server.sockets[0].getsockname()[1])
            tell(f"IDEs of this host are served at {LOOPBACK}:{number}; Ctrl-C ends it, and ranks stay as they are.")
            if self._secret:
                entry = f'"connect": {{"host": "{LOOPBACK}", "port": {number}}}, "secret": "{self._secret}"'
                tell(f"{TOLD_BEFORE_IT}{self._secret}\nIn launch.json of VS Code: {entry}")
            await asyncio.Event().wait()

    def admit(self, arguments: Message) -> None:
        """Raise BadInput for a request to attach without the secret."""
        given = arguments.get("secret")
        if self._secret and not is_same(given, self._secret):
            what = "this port asks for a secret, and none was sent" if given is None else "the secret is not the one"
            raise BadInput(what, 'add `"secret": "…"` as the terminal of `dbg-attach dap --port` shows it')

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._strangers) >= MAX_STRANGERS:
            self._turn_away(next(iter(self._strangers)))
        self._strangers[writer] = None

        def admit(arguments: Message) -> None:
            self.admit(arguments)
            self._strangers.pop(writer, None)

        talk = Conversation(reader, writer, lambda send: Adapter(self._connect, self._target, send, admit))
        late = asyncio.get_running_loop().call_later(STRANGER_SECONDS, self._turn_away, writer)
        try:
            await talk.hold()
        except messages.LostFrames as error:
            tell(f"dbg-attach: {error}")
        finally:
            late.cancel()
            self._strangers.pop(writer, None)

    def _turn_away(self, writer: asyncio.StreamWriter) -> None:
        """Close the connection of a client unless it has attached."""
        if writer in self._strangers:
            del self._strangers[writer]
            writer.transport.abort()


async def _standard_streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return stdin and stdout as streams. What a library prints goes to stderr from then on."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    output_file: TextIO = sys.stdout
    sys.stdout = sys.stderr
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        made = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), output_file)
    except (ValueError, PermissionError):
        raise BadInput("stdin or stdout is no pipe, and an IDE makes pipes", "have an IDE start it") from None
    return reader, asyncio.StreamWriter(*made, None, loop)
