"""Display of a line debugger: a prompt with editing, history and completion, and the rank's output above it.

One prompt lives as long as the display is open. Its text is the rank's prompt. While the rank has no prompt, entered
lines wait for the rank's next prompt. An entered line appears at its place in the rank's log.
"""

from __future__ import annotations

import ast
import asyncio
import warnings
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.cursor_shapes import CursorShape
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.input import create_input
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import ColorDepth

from dbg_client.seat.effects import Bell, Blank, Completed, Cut, Effect, LogText, Note
from dbg_client.terminal.escape import COMMANDS, HELP
from dbg_client.terminal.prompt import (
    Lines,
    PrefixKey,
    RankCompleter,
    UserHistory,
    key_bytes,
    key_presses,
    terminal_output,
)
from dbg_client.terminal.status_line import render
from dbg_wire import limits
from dbg_wire.errors import printable
from dbg_wire.messages import PromptInfo, PromptState

if TYPE_CHECKING:
    from dbg_client.terminal.session import Session

MAX_KEPT = limits.MAX_LOG
"""Maximum number of characters of output kept while the terminal is lent; older output is dropped."""

REDRAW_SECONDS = 0.02
"""Minimum seconds between two drawings of the prompt: people could not see more, and drawing takes time."""

_NO_CODE = frozenset({PromptState.INPUT, PromptState.CONFIRM})


class _Left(Exception):
    """Raised to end the prompt without a line."""


class LineDisplay:
    """Prompt for lines, with the rank's output above the line that is being typed."""

    def __init__(self, host: Session) -> None:
        self._host = host
        self._prefix = PrefixKey(host.options.attach.prefix)
        self._input = create_input()
        self._output = terminal_output(host.options.recording)
        self._completer = RankCompleter(self._ask_completions)
        self._session = self._new_prompt()
        self._session.default_buffer.read_only = ~Condition(self._may_type)
        self._session.default_buffer.accept_handler = self._accept
        self._session.app.before_render += lambda _: self._check_size()
        self._session.app.min_redraw_interval = REDRAW_SECONDS
        self._session.app.erase_when_done = True
        self._talking: asyncio.Task[None] | None = None
        self._is_left = False
        """Whether the prompt must end. A prompt whose task has not run yet then ends at once."""
        self._begun = False
        self._kept: str | None = None
        """Output that arrived while the terminal is lent; None while this display has the terminal."""
        self._seen: PromptInfo | None = None
        """The prompt on the screen. Text typed before a newer prompt is drawn does not answer the newer prompt."""
        self._lines = Lines()

    def _new_prompt(self) -> PromptSession[str]:
        """Return a prompt that completes on Tab only, because completing evaluates attributes in the rank."""
        options = self._host.options
        return PromptSession(
            message=self._message,
            bottom_toolbar=self._toolbar,
            completer=self._completer,
            complete_while_typing=False,
            history=UserHistory(lambda: self._seen is None or self._seen.state not in _NO_CODE),
            key_bindings=self._keys(),
            vi_mode=options.attach.vi,
            color_depth=None if options.color else ColorDepth.DEPTH_1_BIT,
            cursor=CursorShape._NEVER_CHANGE,
            prompt_continuation=lambda width, number, wraps: "." * min(3, max(0, width - 1)) + " ",
            input=self._input,
            output=self._output,
        )

    # ------------------------------------------------------------------------------------------------- as a display

    @property
    def size(self) -> tuple[int, int]:
        """The (rows, columns) of the terminal."""
        size = self._output.get_size()
        return min(size.rows, limits.MAX_ROWS), min(size.columns, limits.MAX_COLUMNS)

    async def open(self, keys: bytes) -> None:
        """Take the terminal; ``keys`` were typed before the display opened."""
        self.take_keys(keys)
        self._start("")

    async def close(self) -> bytes:
        """Restore the terminal, and return the keys that were typed and not used."""
        await self._end_prompt()
        return key_bytes(get_typeahead(self._input))

    def start(self) -> None:
        """Start to show a rank; announce each rank after the first."""
        self._lines = Lines()
        if self._begun:
            self._print(f"Attached to {printable(self._host.attachment.rank.address)}.\n")
        self._begun = True

    def show(self, effect: Effect) -> None:
        """Carry out an effect on the screen."""
        if isinstance(effect, LogText):
            self._print(self._lines.feed(effect.data))
        elif isinstance(effect, Cut):
            self._print(f"{self._lines.cut()}[… {effect.count:,} bytes of output were cut …]\n")
        elif isinstance(effect, Note):
            self._print(f"{printable(effect.text, limits.MAX_TEXT)}\n")
        elif isinstance(effect, Blank) and effect.text:
            self._print("".join(f"{printable(line)}\n" for line in effect.text.split("\n")))
        elif isinstance(effect, Completed):
            self._completer.answered(effect.request, effect.matches)
        elif isinstance(effect, Bell):
            self._output.bell()
            self._output.flush()

    def paint(self) -> None:
        """Draw prompt and toolbar again."""
        if self._session.app.is_running:
            self._session.app.invalidate()

    def resized(self) -> None:
        """Handle a change of the window's size."""
        self._check_size()
        self.paint()

    async def lend_terminal(self, *, row: bool) -> None:
        """Lend the terminal to a page, picker or command row; with ``row``, only the prompt's row."""
        await self._end_prompt()
        self._kept = ""

    def resume(self) -> None:
        """Resume after :meth:`lend_terminal`: print the kept output, and prompt with the user's draft."""
        kept, self._kept = self._kept or "", None
        self._print(kept)
        self._start(self._session.default_buffer.text)

    def take_keys(self, data: bytes) -> None:
        """Handle keys that were typed while the terminal was lent."""
        store_typeahead(self._input, key_presses(data))

    # ------------------------------------------------------------------------------------------------- the prompt

    def _start(self, draft: str) -> None:
        self._is_left = False
        self._talking = asyncio.get_running_loop().create_task(self._host.seat.watched(self._talk(draft)))

    async def _talk(self, draft: str) -> None:
        if self._is_left:
            return
        try:
            await self._session.prompt_async(default=draft, set_exception_handler=False)
        except _Left:
            return
        except (EOFError, OSError):
            self._host.detach()  # the terminal is gone

    async def _end_prompt(self) -> None:
        self._leave_prompt()
        if self._talking is not None:
            await self._talking
            self._talking = None

    def _leave_prompt(self) -> None:
        """End the prompt, so that it uses no more of the keys that are read already."""
        self._is_left = True
        app = self._session.app
        if app.is_running and not app.is_done:
            app.exit(exception=_Left())

    def _accept(self, buffer: Buffer) -> bool:
        at = self._seen if self._host.attachment.driving else None
        for text in replies(buffer.text, at):
            if self._host.ended:
                break  # lines after a detach were not meant for the rank
            self._enter(text, at)
            at = None
        return False

    def _enter(self, text: str, at: PromptInfo | None) -> None:
        word = text.strip() if at is None or at.state is PromptState.COMMAND else ""
        if word == "detach":
            self._leave_prompt()
            self._host.detach()
        else:
            self._host.perform(self._host.attachment.conversation.enter(text, at))

    def _message(self) -> FormattedText:
        conversation = self._host.attachment.conversation
        self._seen = conversation.prompt
        asked = self._seen.text if self._seen is not None else conversation.unseen_reply
        text = "\n".join(map(printable, asked.split("\n")))
        return FormattedText([("class:prompt", _plain(self._lines.shown) + text)])

    def _toolbar(self) -> str:
        status = self._host.status(pending=self._prefix.pending)
        return render(status, self._output.get_size().columns)

    def _may_type(self) -> bool:
        return self._host.attachment.may_type

    def _ask_completions(self, line: str, start: int, end: int) -> int:
        request, effects = self._host.attachment.conversation.complete(line, start, end)
        self._host.perform(effects)
        return request

    def _check_size(self) -> None:
        attachment = self._host.attachment
        if self.size != attachment.size:
            self._host.perform(attachment.resize(*self.size, self._host.now()))

    # ------------------------------------------------------------------------------------------------- the screen

    def _print(self, text: str) -> None:
        if self._kept is not None:
            self._kept = (self._kept + text)[-MAX_KEPT:]
        elif text:
            text = text if self._host.options.color else _plain(text)
            # Colours that a line leaves on must not reach the prompt.
            reset = "\x1b[0m" if "\x1b" in text else ""
            if self._session.app.is_running:
                self._session.app.renderer.erase()
            self._output.write_raw(text + reset)
            self._output.flush()
            self.paint()

    # ------------------------------------------------------------------------------------------------- keys

    def _keys(self) -> KeyBindings:
        """Return the key bindings in addition to the editing keys."""
        keys, may_type = KeyBindings(), Condition(self._may_type)
        for key in ("c-c", "<sigint>"):
            keys.add(key)(lambda event: self._interrupt())
        keys.add("escape", "enter", filter=may_type)(lambda event: event.current_buffer.newline(copy_margin=False))

        @keys.add("c-d")
        def _ended(event: KeyPressEvent) -> None:
            if event.current_buffer.text:
                event.current_buffer.delete()
            else:
                self._host.perform(self._host.attachment.conversation.end_of_input())

        for key in (Keys.Any, Keys.BracketedPaste, "enter", "backspace", "tab", "up", "down"):
            keys.add(key, filter=~may_type)(lambda event: self._refuse())
        self._prefix.bind(keys, self._prefixed)
        return keys

    def _prefixed(self, event: KeyPressEvent) -> None:
        """Carry out the key after the prefix."""
        byte, last = (self._prefix.prefix or b"").decode("latin-1"), event.key_sequence[-1].key
        if event.data == byte or (event.data == "]" and last == "]"):
            event.current_buffer.insert_text(byte)
            return
        key = event.data if last != Keys.BracketedPaste and event.data in COMMANDS else HELP
        if self._host.lends(key):
            self._leave_prompt()  # do this at once, because the next keys are for the view that opens
            self._host.lend_terminal(key, b"")
        else:
            self._host.command(key)

    def _interrupt(self) -> None:
        """Handle Ctrl-C: drop the typed line; if no line is typed or no prompt is open, interrupt the rank."""
        buffer, conversation = self._session.default_buffer, self._host.attachment.conversation
        if not self._may_type():
            self._refuse()
            return
        typed = bool(buffer.text)
        buffer.reset()
        if not typed or conversation.prompt is None:
            self._host.perform(conversation.interrupt())

    def _refuse(self) -> None:
        """Refuse a key while this terminal may not type."""
        self._host.perform(self._host.attachment.refuse(self._host.now()))


def replies(text: str, at: PromptInfo | None) -> list[str]:
    """Split a text of several lines into replies: one block of Python, or a command in each line."""
    if "\n" not in text or (at is not None and at.state not in (PromptState.COMMAND, PromptState.COMMANDS)):
        return [text]
    if (at is None or at.state is PromptState.COMMAND) and _is_block(text):
        return [text.rstrip("\n")]
    return [line for line in text.split("\n") if line.strip()] or [""]


def _is_block(text: str) -> bool:
    """Return True if a text is one block of Python.

    Return False for single-line statements if one of them is only a name: two lines ``n`` are two steps of pdb.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            statements = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    has_name = any(isinstance(each, ast.Expr) and isinstance(each.value, ast.Name) for each in statements)
    return not has_name or any(each.end_lineno != each.lineno for each in statements)


def _plain(line: str) -> str:
    """Return a line without its colours."""
    return "".join(part.partition("m")[2] if number else part for number, part in enumerate(line.split("\x1b")))
