"""The parts of one window that is attached, joined: which request goes to which of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial

from dbg_client.dap.breakpoints import Breakpoints
from dbg_client.dap.capabilities import Client
from dbg_client.dap.console import Console
from dbg_client.dap.frames import Frames
from dbg_client.dap.keyboard import Keyboard
from dbg_client.dap.listing import Threads
from dbg_client.dap.log_texts import LogTexts
from dbg_client.dap.messages import Message
from dbg_client.dap.moves import STEPS, Moves
from dbg_client.dap.paths import Paths
from dbg_client.dap.source import Sources
from dbg_client.dap.values import Values
from dbg_client.dap.window import Window
from dbg_wire.errors import BadInput, DbgError

Do = Callable[[Message], Awaitable["Message | None"]]
"""Carries out a request with these arguments, and returns the body of its response."""

CONSOLE = "repl"
"""The context of an expression that the user has typed into the debug console."""


class Session:
    """An attached window, from the request to attach to its end; belongs to one event loop."""

    def __init__(self, window: Window, client: Client, paths: Paths) -> None:
        self._window = window
        self._client = client
        self.threads = Threads(window)
        self._keyboard = Keyboard(window)
        self._sources = Sources(window, paths, knows_invalidated=client.knows_invalidated)
        self._breakpoints = Breakpoints(window, paths, self._sources, client.first_line)
        self._frames = Frames(window, self.threads, self._sources, client.first_line, client.first_column)
        self._values = Values(window, self.threads, self._frames, self._keyboard)
        self._moves = Moves(window, self.threads, self._keyboard)
        self._console = Console(window, self.threads, self._keyboard)
        self._log_texts = LogTexts(window)
        self._watching = ExitStack()
        for part in (self.threads, self._keyboard, self._breakpoints, self._log_texts):
            self._watching.enter_context(window.switchboard.watched_by(part))
        self._following = asyncio.create_task(self._breakpoints.follow())

    @property
    def requests(self) -> dict[str, Do]:
        """Return what each request of the IDE does."""
        return {
            "configurationDone": self._configured,
            "setBreakpoints": self._breakpoints.set,
            "setExceptionBreakpoints": self._breakpoints.set_exceptions,
            "source": self._sources.content,
            "threads": self.threads.threads,
            "stackTrace": self._frames.stack_trace,
            "scopes": self._values.scopes,
            "variables": self._values.variables,
            "setVariable": self._set_variable,
            "evaluate": self._evaluate,
            "completions": self._completions,
            "exceptionInfo": self._values.exception_info,
            **{request: partial(self._moving, partial(self._moves.step, request)) for request in STEPS},
            "continue": partial(self._moving, self._moves.go_on),
            "pause": self._moves.pause,
            "restartFrame": partial(_refuse, "a frame can't be started again"),
            "goto": partial(_refuse, "no line is jumped to"),
            "stepBack": partial(_refuse, "no rank steps back"),
            "reverseContinue": partial(_refuse, "no rank runs back"),
        }

    async def leave(self) -> None:
        """Take the IDE's breakpoints with it: nobody would be there when a rank stops at them. Never an error."""
        await self._breakpoints.leave()

    async def close(self) -> None:
        """Leave the ranks as they are, and the broker. Never an error."""
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)
        await self._sources.close()
        self.threads.close()
        self._moves.close()
        self._frames.close()
        self._keyboard.close()
        self._log_texts.close()
        self._watching.close()
        await self._window.switchboard.close()

    # -------------------------------------------------------------------------------------------------------- requests

    async def _configured(self, arguments: Message) -> None:
        # The IDE has the response before the first event.
        asyncio.get_running_loop().call_soon(self.threads.begin)
        if not self._window.ranks:
            self._window.tell(f"No rank fits {self._window.target.text} yet; it shows up here when it comes.")

    async def _moving(self, move: Do, arguments: Message) -> Message | None:
        # A rank may have come a moment ago; it must not pass by the IDE's breakpoints.
        await self._breakpoints.reach(self.threads.standing(arguments.get("threadId")))
        return await move(arguments)

    async def _evaluate(self, arguments: Message) -> Message:
        typed = arguments.get("context") == CONSOLE
        text = arguments.get("expression")
        if not isinstance(text, str) or not text.strip():
            raise BadInput("there is no expression", "write one")
        answer = await self._console.answer(text) if typed else None
        if answer is not None:
            return {"result": answer, "variablesReference": 0}
        return await self._values.evaluate(await self._with_frame(arguments), runs=typed)

    async def _with_frame(self, arguments: Message) -> Message:
        """Return the arguments with a frame: the innermost of the rank that was looked at last if they name none."""
        if arguments.get("frameId") is not None:
            return arguments
        focus = self.threads.focus
        if focus is None:
            raise BadInput("no rank is selected", "choose a frame of a stopped rank, or write `all: EXPRESSION`")
        return {**arguments, "frameId": self._frames.innermost(focus)}

    async def _completions(self, arguments: Message) -> Message:
        text, column = str(arguments.get("text", "")), arguments.get("column", 1)
        line = arguments.get("line", self._client.first_line)
        before = _before(text, line, column, self._client)
        words = [{"label": word, "start": 0, "length": len(before)} for word in self._console.completions(before)]
        try:
            frame = (await self._with_frame(arguments))["frameId"]
            found = await self._values.completions(text, len(before), frame)
        except DbgError:
            # No rank is selected, or it runs by now: nobody wants to read that while typing.
            found = []
        return {"targets": [*words, *found]}

    async def _set_variable(self, arguments: Message) -> Message:
        body = await self._values.set_variable(arguments)
        if self._client.knows_invalidated:
            self._window.event("invalidated", {"areas": ["variables"]})
        return body


async def _refuse(what: str, arguments: Message) -> None:
    raise BadInput(what, "ranks of a job depend on each other; continue to the next breakpoint")


def _before(text: str, line: object, column: object, client: Client) -> str:
    """Return the text before the cursor, which the client gives as a line and a column."""
    lines = text.split("\n")
    row = line - client.first_line if isinstance(line, int) else 0
    end = column - client.first_column if isinstance(column, int) else len(text)
    row = min(max(0, row), len(lines) - 1)
    return "\n".join([*lines[:row], lines[row][: max(0, end)]])
