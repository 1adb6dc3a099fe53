"""Debug adapter for one IDE on stdin and stdout: receives requests and calls their handlers."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, TextIO

from dbg_client.core.remembered_groups import read_target
from dbg_client.core.requests import OpenRequests, sentence_of
from dbg_client.core.switchboard import Switchboard, switchboard_to
from dbg_client.core.wait_progress import cancel_and_wait, read_in_thread
from dbg_client.dap import messages
from dbg_client.dap.breakpoints import Breakpoints
from dbg_client.dap.console import COMMANDS, Console, LogTexts
from dbg_client.dap.messages import Message
from dbg_client.dap.source import Paths, SourceLocator, read_mappings
from dbg_client.dap.step_requests import STEPS, Keyboard, StepRequests
from dbg_client.dap.values import Frames, Values
from dbg_client.dap.window import Threads, Window
from dbg_client.shell.streams import notify
from dbg_command.targets import Target, parse_target
from dbg_dial.tcp import within
from dbg_wire.errors import BadInput, printable

if TYPE_CHECKING:
    from dbg_client.dap.verb import Dap

Do = Callable[[Message], Awaitable["Message | None"]]
"""Handler that carries out a request with these arguments and returns the body of the response."""

CONSOLE = "repl"
"""DAP context of an expression that the user has typed into the debug console."""

MAX_OPEN = 256
"""Maximum concurrent requests; an IDE has about ten."""

MAX_UNSENT = 32 * 1024 * 1024
"""Maximum unsent bytes for an IDE that does not read. If there are more, the session ends; ranks stay as they are."""

END_SECONDS = 2.0
"""Timeout for sending the last messages to a client that has stopped reading, in seconds."""


class Session:
    """One attached window of an IDE, from the attach request until it disconnects; belongs to one event loop."""

    def __init__(self, window: Window, client: messages.Client, paths: Paths) -> None:
        self._window = window
        self.threads = Threads(window, resumes_by_itself=client.resumes_by_itself)
        self._keyboard = Keyboard(window)
        self._sources = SourceLocator(window, paths)
        self._breakpoints = Breakpoints(window, paths)
        self._frames = Frames(window, self.threads, self._sources)
        self._values = Values(window, self.threads, self._frames, self._keyboard)
        self._moves = StepRequests(window, self.threads, self._keyboard)
        self._console = Console(window, self.threads, self._keyboard)
        self._log_texts = LogTexts(window)
        self._watching = ExitStack()
        for part in (self.threads, self._log_texts):
            self._watching.enter_context(window.switchboard.watched_by(part.receive))
        self._following = asyncio.create_task(self._breakpoints.follow())

    @property
    def requests(self) -> dict[str, Do]:
        """The handler of each request of the IDE."""
        return {
            "configurationDone": self._configured,
            "setBreakpoints": self._breakpoints.set,
            "setExceptionBreakpoints": self._set_exceptions,
            "source": self._sources.content,
            "threads": self.threads.threads,
            "stackTrace": self._frames.stack_trace,
            "scopes": self._values.scopes,
            "variables": self._values.variables,
            "setVariable": self._values.set_variable,
            "evaluate": self._evaluate,
            "exceptionInfo": self._values.exception_info,
            **{request: partial(self._moving, partial(self._moves.step, request)) for request in STEPS},
            "continue": partial(self._moving, self._moves.go_on),
            "pause": self._moves.pause,
        }

    async def leave(self) -> None:
        """Clear the IDE's breakpoints, because nobody would notice a rank that stops there. Never an error."""
        await self._breakpoints.leave()

    async def close(self) -> None:
        """Close the connection to the broker, and leave the ranks as they are. Never an error."""
        await cancel_and_wait(self._following)
        self.threads.close()
        self._moves.close()
        self._keyboard.close()
        self._watching.close()
        await self._window.switchboard.close()

    # -------------------------------------------------------------------------------------------------------- requests

    async def _configured(self, arguments: Message) -> None:
        # The IDE must receive the response before the first event.
        asyncio.get_running_loop().call_soon(self.threads.start)
        if not self._window.ranks:
            self._window.write(f"No rank matches {self._window.target.text} yet; ranks appear here when they connect.")

    async def _set_exceptions(self, arguments: Message) -> None:
        """Ignore the IDE's choice of exceptions: a rank stops at a crash only if it was started with --post-mortem."""

    async def _moving(self, move: Do, arguments: Message) -> Message | None:
        # The rank may have just connected. Set the IDE's breakpoints first; otherwise the rank would run past them.
        await self._breakpoints.reach(self.threads.stopped_rank(arguments.get("threadId")))
        return await move(arguments)

    async def _evaluate(self, arguments: Message) -> Message:
        typed = arguments.get("context") == CONSOLE
        text = arguments.get("expression")
        if not isinstance(text, str) or not text.strip():
            raise BadInput("the expression is empty", "write an expression")
        answer = await self._console.answer(text) if typed else None
        if answer is not None:
            return {"result": answer, "variablesReference": 0}
        return await self._values.evaluate(await self._with_frame(arguments), runs=typed)

    async def _with_frame(self, arguments: Message) -> Message:
        """Return the arguments with a frame; if they name none, use the innermost frame of the focused rank."""
        if arguments.get("frameId") is not None:
            return arguments
        focus = self.threads.focus
        if focus is None:
            raise BadInput("no rank is selected", "choose a frame of a stopped rank, or write `eval all EXPRESSION`")
        return {**arguments, "frameId": self._frames.innermost(focus)}


Connect = Callable[[str], Switchboard]
"""Function that returns an unopened switchboard to the broker for a client with this name."""


class Adapter:
    """Request handler for one IDE; belongs to one event loop. It connects to the broker when the IDE attaches.

    ``target`` is from the command line, or None if the attach request names it. ``ended`` is set when the IDE has
    disconnected.
    """

    def __init__(self, connect: Connect, target: Target | None, send: messages.Send) -> None:
        self._connect = connect
        self._target = target
        self._send = send
        self._client = messages.Client()
        self._session: Session | None = None
        self._is_attaching = False
        self._open = OpenRequests(MAX_OPEN, "request")
        self.ended = asyncio.Event()
        self._requests: dict[str, Do] = {
            "initialize": self._initialize,
            "attach": self._attach,
            "launch": self._launch,
            "disconnect": self._disconnect,
        }

    def receive(self, request: messages.Request) -> None:
        """Start to handle a request; earlier ones may still be open. The response is sent when the request is done."""
        if why_not := self._open.start(request.seq, lambda: self._answer(request)):
            self._send(messages.refusal(request, why_not))

    async def close(self) -> None:
        """Cancel open requests, close the connection to the broker, and leave the ranks as they are. Never an error."""
        await self._open.close()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    # -------------------------------------------------------------------------------------------------------- requests

    async def _answer(self, request: messages.Request) -> None:
        do = self._requests.get(request.command)
        arguments = {} if request.arguments is None else request.arguments
        try:
            if do is None:
                raise self._why_not(request)
            if not isinstance(arguments, dict):
                raise BadInput(f"the arguments of {printable(request.command, 60)} are not an object", "send an object")
            body = await do(arguments)
        except asyncio.CancelledError:
            self._send(messages.refusal(request, "cancelled"))
            raise
        except Exception as error:
            # Always answer, because an IDE waits forever for a response.
            self._send(messages.refusal(request, sentence_of(error, COMMANDS), show_user=request.command == "attach"))
            return
        self._send(messages.response(request, body))
        if request.command == "attach":
            # Send this event only after the attach: the IDE answers it with breakpoints, which need known ranks.
            self._send(messages.event("initialized"))
        elif request.command == "disconnect":
            self.ended.set()

    async def _initialize(self, arguments: Message) -> Message:
        if arguments.get("linesStartAt1") is False or arguments.get("columnsStartAt1") is False:
            raise BadInput("this adapter counts lines and columns from 1", "configure the IDE to count from 1")
        self._client = messages.Client.read(arguments)
        return messages.CAPABILITIES

    async def _attach(self, arguments: Message) -> None:
        if self._session is not None or self._is_attaching:
            raise BadInput("this window is already attached", "disconnect it first")
        paths = read_mappings(arguments.get("pathMappings"))
        target = self._target or parse_target(str(arguments.get("target", messages.USUAL_TARGET)))
        switchboard = self._connect(self._client.name)
        self._is_attaching = True
        try:
            await switchboard.open()
        finally:
            self._is_attaching = False
        self._session = Session(Window(switchboard, target, self._send), self._client, paths)
        self._requests.update(self._session.requests)

    async def _launch(self, arguments: Message) -> None:
        raise BadInput(
            "launch is not supported", 'start the job as usual, and write `"request": "attach"` in launch.json'
        )

    async def _disconnect(self, arguments: Message) -> None:
        """Leave the ranks as they are; the session ends after the IDE has the response."""
        if self._session is not None:
            await self._session.leave()

    def _why_not(self, request: messages.Request) -> BadInput:
        if self._session is None:
            return BadInput("this window is not attached", "send `attach` first")
        return BadInput(f"this adapter has no request {printable(request.command, 60)!r}", "do not send it")


class Conversation:
    """Connection to one client; belongs to one event loop."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connect: Connect, target: Target | None
    ) -> None:
        self._reader = reader
        self._writer = writer
        self.send = messages.numbered(self._write)
        self.adapter = Adapter(connect, target, self.send)

    async def hold(self) -> None:
        """Answer requests until the client has disconnected; the ranks stay as they are.

        Raises LostFrames if the client does not speak the protocol, after reporting it to the client.
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
            await cancel_and_wait(ended, reading)
            await self._end()

    async def _read(self) -> None:
        while (body := await messages.read_body(self._reader)) is not None:
            try:
                request = messages.read_request(body)
            except messages.BadMessage as bad:
                self.send(messages.output(f"a message of this IDE was ignored: {bad}", "important"))
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
    """Serve an IDE until stdin ends; return the exit status. Raises LostFrames or BadInput."""
    broker, target = settings.broker, None
    if settings.target is not None:
        target = await read_in_thread(partial(read_target, settings.target, os.environ), broker.timeout)

    def connect(client: str) -> Switchboard:
        # The broker shows the name of the IDE to other users.
        return switchboard_to(broker.address, broker.timeout, program=client, logs=True)

    if sys.stdin.isatty():
        notify("An IDE starts `dbg-attach dap`: see `dbg-attach dap --vscode`. Press Ctrl-D to end it.")
    reader, writer = await _standard_streams()
    await Conversation(reader, writer, connect, target).hold()
    return 0


async def _standard_streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return stdin and stdout as streams, and redirect later prints of libraries to stderr."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    output_file: TextIO = sys.stdout
    sys.stdout = sys.stderr
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        made = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), output_file)
    except (ValueError, PermissionError):
        raise BadInput("stdin or stdout is not a pipe", "start `dbg-attach dap` from an IDE") from None
    return reader, asyncio.StreamWriter(*made, None, loop)
