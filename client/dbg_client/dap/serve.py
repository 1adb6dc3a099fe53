"""Serve IDEs: one on stdin and stdout, or one after the other on a port of this host's loopback."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TextIO

from dbg_client.core.patience import read_in_thread
from dbg_client.core.remembered_groups import read_target
from dbg_client.core.requests import LOOPBACK, is_same, listen, new_secret
from dbg_client.core.switchboard import Switchboard, switchboard_to
from dbg_client.dap import messages
from dbg_client.dap.adapter import Adapter, Connect
from dbg_client.dap.messages import Message
from dbg_client.dap.verb import Dap
from dbg_client.shell.streams import tell
from dbg_client.verbs.verb import BrokerOptions
from dbg_command.targets import Target
from dbg_dial.waiting import within
from dbg_wire.errors import BadInput

NEXT_SESSION = "Secret for the next session: "

MAX_UNSENT = 32 * 1024 * 1024
"""Bytes that wait for an IDE that does not read; beyond it the conversation ends, and the ranks stay as they are."""

END_SECONDS = 2.0
"""Seconds for the last messages to a client that has stopped reading."""

MAX_STRANGERS = 8
"""Clients of the port that have not attached; one more has the oldest of them turned away, not the user's IDE."""

STRANGER_SECONDS = 30.0
"""Seconds in which a client has to attach: an IDE does in one."""


class Admission:
    """The seat of a port, and the one-time secret by which it is taken: each lets one IDE in once.

    ``tell`` gets each new secret. Without ``asks`` the seat alone counts, and there is no secret.
    """

    def __init__(self, tell: Callable[[str], None], *, asks: bool = True) -> None:
        self._tell = tell
        self._asks = asks
        self._secret: str | None = None
        self._is_taken = False

    def admit(self, arguments: Message) -> None:
        """Give the seat to the client that sends these arguments to attach. Raises BadInput if it is not let in."""
        given = arguments.get("secret")
        if self._secret is not None and not is_same(given, self._secret):
            what = "this port asks for a secret, and none was sent" if given is None else "the secret is not the one"
            raise BadInput(what, 'add `"secret": "…"` as the terminal of `dbg-attach dap --port` shows it')
        if self._is_taken:
            what = "another IDE is attached at this port"
            raise BadInput(what, "disconnect it, or run a second `dbg-attach dap --port 0`")
        self._is_taken = True

    def free(self) -> None:
        """Free the seat for who sends the next secret, which is made and told."""
        self._is_taken = False
        if self._asks:
            self._secret = new_secret()
            self._tell(self._secret)


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
    target = await _target(settings)
    connect = partial(_switchboard, settings.broker)
    if settings.port is not None:
        await _Port(connect, target, no_secret=settings.no_secret).serve(settings.port)
        return 0
    if sys.stdin.isatty():
        tell("dbg-attach dap is spoken to by an IDE: see `dbg-attach dap --vscode`. Ctrl-D ends it.")
    reader, writer = await _standard_streams()
    await Conversation(reader, writer, partial(Adapter, connect, target)).hold()
    return 0


async def _target(settings: Dap) -> Target | None:
    if settings.target is None:
        return None
    return await read_in_thread(partial(read_target, settings.target, os.environ), settings.broker.timeout)


def _switchboard(broker: BrokerOptions, client: str) -> Switchboard:
    """Return a link to the broker, not open yet, whose user is shown with the IDE that acts."""
    return switchboard_to(broker.address, broker.timeout, program=client, logs=True)


class _Port:
    """The port and those who have come to it."""

    def __init__(self, connect: Connect, target: Target | None, *, no_secret: bool) -> None:
        self._connect = connect
        self._target = target
        self._number = 0
        self._strangers: dict[asyncio.StreamWriter, None] = {}
        self._talks: set[asyncio.Task[None]] = set()
        self._admission = Admission(self._tell_secret, asks=not no_secret)

    async def serve(self, number: int) -> None:
        """Listen until cancelled. Raises BadInput for a port that can't be had."""
        server = await asyncio.start_server(self._come, sock=listen(number))
        self._number = int(server.sockets[0].getsockname()[1])
        tell(f"IDEs of this host are served at {LOOPBACK}:{self._number}; Ctrl-C ends it, and ranks stay as they are.")
        self._admission.free()
        try:
            await asyncio.Event().wait()
        finally:
            server.close()
            for talk in self._talks:
                talk.cancel()
            await asyncio.gather(*self._talks, return_exceptions=True)

    def _tell_secret(self, secret: str) -> None:
        entry = f'"connect": {{"host": "{LOOPBACK}", "port": {self._number}}}, "secret": "{secret}"'
        tell(f"{NEXT_SESSION}{secret}\nIn launch.json of VS Code: {entry}")

    def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._strangers) >= MAX_STRANGERS:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.transport.abort()
        self._strangers[writer] = None
        talk = asyncio.create_task(self._talk(reader, writer))
        self._talks.add(talk)
        talk.add_done_callback(self._talks.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        attached = asyncio.Event()

        def admit(arguments: Message) -> None:
            # A client that is in may attach again.
            if not attached.is_set():
                self._admission.admit(arguments)
                attached.set()

        talk = Conversation(reader, writer, lambda send: Adapter(self._connect, self._target, send, admit))
        watch = asyncio.create_task(self._until_attached(attached, talk.send, writer))
        try:
            await talk.hold()
        except messages.LostFrames as error:
            tell(f"dbg-attach: {error}")
        finally:
            self._strangers.pop(writer, None)
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
            if attached.is_set():
                self._admission.free()

    async def _until_attached(self, attached: asyncio.Event, send: messages.Send, writer: asyncio.StreamWriter) -> None:
        try:
            await within(STRANGER_SECONDS, attached.wait())
        except TimeoutError:
            send(messages.output(f"this client has not attached within {STRANGER_SECONDS:g} s", "important"))
            writer.close()
        finally:
            self._strangers.pop(writer, None)


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
