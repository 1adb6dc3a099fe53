"""One row at the bottom of a session, where the user types a command and waits for its answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import TypeVar

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl, UIControl
from prompt_toolkit.layout.processors import AfterInput, BeforeInput, ConditionalProcessor
from prompt_toolkit.output import Output

from dbg_client.command_line.help import session_hint
from dbg_client.terminal.prompt_keys import ESCAPE_SECONDS

T = TypeVar("T")

MAX_HISTORY = 1000
"""Commands that are kept for the arrow keys: more than anybody goes back."""

_ASKING = "asking"
"""What the row says of a command whose answer is waited for, in the first second."""


class CommandRow:
    """Use the row where the cursor stands, and leave it empty; Esc and Ctrl-C leave.

    What is typed is added to ``history``.
    """

    def __init__(self, source: Input, screen: Output, history: list[str]) -> None:
        self._source = source
        self._screen = screen
        self._history = history
        self._note = _ASKING
        self._waiting: Application[str | None] | None = None

    def note(self, line: str | None) -> None:
        """Say in the row of a command what its answer waits for; None while there is nothing to say."""
        self._note = line or _ASKING
        if self._waiting is not None:
            self._waiting.invalidate()

    async def read(self) -> str | None:
        """Return the command that is typed, None if the user leaves."""
        buffer = Buffer(multiline=False)
        is_empty = Condition(lambda: not buffer.text)
        hint = ConditionalProcessor(AfterInput(session_hint(), style="fg:ansibrightblack"), is_empty)
        control = BufferControl(buffer, input_processors=[BeforeInput(":"), hint])
        keys = KeyBindings()

        @keys.add("enter")
        def _entered(event: KeyPressEvent) -> None:
            # A paste may have several lines, and there is one row.
            event.app.exit(result=self._keep(" ".join(buffer.text.split("\n")).strip()))

        @keys.add("backspace", filter=is_empty)
        def _emptied(event: KeyPressEvent) -> None:
            event.app.exit(result=None)

        self._bind_history(keys, buffer)
        return await self._run(control, keys)

    def _keep(self, text: str) -> str | None:
        if text and self._history[-1:] != [text]:
            self._history.append(text)
            del self._history[:-MAX_HISTORY]
        return text or None

    def _bind_history(self, keys: KeyBindings, buffer: Buffer) -> None:
        """Let up and down go through earlier commands; prompt_toolkit loads its history too late for that."""
        lines, at = [*self._history, ""], len(self._history)

        def go(step: int) -> None:
            nonlocal at
            lines[at] = buffer.text
            at = min(max(0, at + step), len(lines) - 1)
            buffer.document = Document(lines[at])

        keys.add("up")(lambda event: go(-1))
        keys.add("down")(lambda event: go(1))

    async def wait(self, text: str, work: Awaitable[T]) -> T | None:
        """Return the result of ``work``; None if the user leaves before, which cancels the work."""
        task: asyncio.Future[T] = asyncio.ensure_future(work)
        control = FormattedTextControl(lambda: f":{text}   ({self._note}; Esc gives up)")

        def begin() -> None:
            task.add_done_callback(lambda _: _leave(app))

        self._waiting = app = self._application(control, KeyBindings())
        try:
            await app.run_async(pre_run=begin, handle_sigint=False, set_exception_handler=False)
        except EOFError:
            pass
        finally:
            self._waiting = None
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        return None if task.cancelled() else task.result()

    async def agrees(self, question: str) -> bool:
        """Ask, and tell whether the answer is yes; any other key is no."""
        keys = KeyBindings()
        for key in (Keys.Any, "enter"):
            keys.add(key)(lambda event: event.app.exit(result=event.data if event.data in ("y", "Y") else None))
        return await self._run(FormattedTextControl(f"{question} [y/N]"), keys) is not None

    async def pause(self, text: str) -> None:
        """Show a text in the row until a key is typed."""
        keys = KeyBindings()
        for key in (Keys.Any, "enter"):
            keys.add(key)(lambda event: event.app.exit(result=None))
        await self._run(FormattedTextControl(text), keys)

    async def _run(self, control: UIControl, keys: KeyBindings) -> str | None:
        try:
            return await self._application(control, keys).run_async(handle_sigint=False, set_exception_handler=False)
        except EOFError:
            return None

    def _application(self, control: UIControl, keys: KeyBindings) -> Application[str | None]:
        for key in ("escape", "c-c", "<sigint>"):
            keys.add(key, eager=True)(lambda event: event.app.exit(result=None))
        application: Application[str | None] = Application(
            layout=Layout(Window(control, height=1)),
            key_bindings=keys,
            editing_mode=EditingMode.EMACS,
            erase_when_done=True,
            input=self._source,
            output=self._screen,
        )
        application.ttimeoutlen = application.timeoutlen = ESCAPE_SECONDS
        return application


def _leave(app: Application[str | None]) -> None:
    with contextlib.suppress(Exception):  # ended already
        app.exit(result=None)
