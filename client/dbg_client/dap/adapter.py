"""The adapter of one IDE's window: which request does what, and in which order a session of the protocol goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dbg_client.core.switchboard import Switchboard
from dbg_client.dap.capabilities import CAPABILITIES, Client
from dbg_client.dap.console import COMMANDS
from dbg_client.dap.messages import Message, Request, Send, event, refusal, response
from dbg_client.dap.paths import read_mappings
from dbg_client.dap.session import Do, Session
from dbg_client.dap.window import Window
from dbg_client.errors import bug
from dbg_client.words.other_faces import in_words_of
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.targets.selection import Target, parse_target

MAX_OPEN = 256
"""Requests that are worked on at the same time; an IDE has some ten open."""

USUAL_TARGET = "all"
"""The ranks of a window if neither the command line nor the request to attach names some."""

Connect = Callable[[str], Switchboard]
"""Returns a switchboard, not open yet, that greets the broker as a client of this name: ``VS Code``, say."""


def admit_anybody(arguments: Message) -> None:
    """Let any client in: a check of the request to attach for a client that comes by stdin."""


class Adapter:
    """Answer the requests of one IDE; belongs to one event loop. The broker is dialled when the IDE attaches.

    ``target`` is that of the command line, None if the request to attach names it. ``admit`` raises BadInput for a
    request to attach whose arguments do not let the client in. ``ended`` is set when the IDE has disconnected.
    """

    def __init__(
        self, connect: Connect, target: Target | None, send: Send, admit: Callable[[Message], None] = admit_anybody
    ) -> None:
        self._connect = connect
        self._target = target
        self._send = send
        self._admit = admit
        self._client = Client()
        self._session: Session | None = None
        self._open: dict[int, asyncio.Task[None]] = {}
        self.ended = asyncio.Event()
        self._requests: dict[str, Do] = {
            "initialize": self._initialize,
            "attach": self._attach,
            "launch": self._launch,
            "disconnect": self._disconnect,
            "terminate": self._terminate,
            "cancel": self._cancel,
        }

    def take(self, request: Request) -> None:
        """Take a request; the answer comes when it is carried out, while others are taken."""
        if len(self._open) >= MAX_OPEN or request.seq in self._open:
            self._send(refusal(request, f"{MAX_OPEN} requests are open, or one has this number; wait for an answer"))
            return
        task = asyncio.create_task(self._answer(request))
        self._open[request.seq] = task
        task.add_done_callback(lambda _: self._open.pop(request.seq, None))

    async def close(self) -> None:
        """Give up what is open, leave the ranks as they are, and close the link to the broker. Never an error."""
        for task in list(self._open.values()):
            task.cancel()
        await asyncio.gather(*self._open.values(), return_exceptions=True)
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    # -------------------------------------------------------------------------------------------------------- requests

    async def _answer(self, request: Request) -> None:
        do = self._requests.get(request.command)
        try:
            if do is None:
                raise self._why_not(request)
            body = await do(request.arguments)
        except asyncio.CancelledError:
            self._send(refusal(request, "cancelled"))
            raise
        except DbgError as error:
            self._send(refusal(request, in_words_of(error, COMMANDS), show_user=request.command == "attach"))
            return
        except Exception as error:
            # An IDE waits for ever for an answer that doesn't come.
            self._send(refusal(request, bug(error), show_user=request.command == "attach"))
            return
        self._send(response(request, body))
        if request.command == "attach":
            # The IDE sends its breakpoints then; they are for ranks, which are known by now.
            self._send(event("initialized"))
        elif request.command == "disconnect":
            self.ended.set()

    async def _initialize(self, arguments: Message) -> Message:
        self._client = Client.read(arguments)
        return CAPABILITIES

    async def _attach(self, arguments: Message) -> None:
        self._admit(arguments)
        if self._session is not None:
            raise BadInput("this window is attached already", "disconnect it first")
        paths = read_mappings(arguments.get("pathMappings"))
        target = self._target or parse_target(str(arguments.get("target", USUAL_TARGET)))
        switchboard = self._connect(self._client.name)
        await switchboard.open()
        self._session = Session(Window(switchboard, target, self._send), self._client, paths)
        self._requests.update(self._session.requests)

    async def _launch(self, arguments: Message) -> None:
        raise BadInput(
            "this adapter starts no program", 'start the job as usual, and write `"request": "attach"` in launch.json'
        )

    async def _disconnect(self, arguments: Message) -> None:
        """Leave the ranks as they are: the session ends when the IDE has the answer."""
        if self._session is not None:
            await self._session.leave()

    async def _terminate(self, arguments: Message) -> None:
        raise BadInput(
            "a window does not end a job", "disconnect leaves its ranks as they are; end it where it was started"
        )

    async def _cancel(self, arguments: Message) -> None:
        number = arguments.get("requestId")
        task = self._open.get(number) if isinstance(number, int) else None
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    def _why_not(self, request: Request) -> BadInput:
        if self._session is None:
            return BadInput("this window is not attached", "send `attach` first")
        return BadInput(f"this adapter has no request {printable(request.command, 60)!r}", "do without it")
