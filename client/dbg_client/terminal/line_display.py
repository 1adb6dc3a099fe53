"""The display of a line debugger: a prompt with editing, history and completion, and the rank's output above it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory, ConditionalAutoSuggest
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.cursor_shapes import CursorShape
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import FormattedText, StyleAndTextTuples
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.lexers import DynamicLexer
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.renderer import print_formatted_text

from dbg_client.seat.effects import Bell, Blank, Completed, Cut, Effect, LogText, Look, Note
from dbg_client.terminal import canvas
from dbg_client.terminal.line_keys import LineInput, line_keys, pasted_commands
from dbg_client.terminal.line_prompt import (
    STYLE,
    Lines,
    RankCompleter,
    indent_after,
    line_lexer,
    line_style,
    open_history,
    show_source,
    terminal_output,
)
from dbg_client.terminal.prompt_keys import PrefixKey, key_bytes, key_presses
from dbg_client.terminal.status_line import toolbar_of
from dbg_wire import limits
from dbg_wire.errors import printable
from dbg_wire.messages import PromptInfo, PromptState, Source

if TYPE_CHECKING:
    from dbg_client.terminal.session import Session

STICKY_ROWS = 30
"""Rows that a terminal needs to show the source after every stop; in a smaller one little else would fit."""

MAX_KEPT = limits.MAX_LOG
"""Characters of output kept while something else has the terminal; what is older than that is dropped."""

REDRAW_SECONDS, BUSY_REDRAW_SECONDS = 0.02, 0.1
"""Seconds between two drawings of the prompt, usually and while lines wait that were typed ahead: nobody sees more, and
drawing takes time."""

_NO_CODE = frozenset({PromptState.INPUT, PromptState.CONFIRM})


class _Left(Exception):
    """End a prompt without a line."""


class _SourceView:
    """The source round the current line, as ``sticky`` shows it after each stop."""

    def __init__(self, *, is_on: bool) -> None:
        self.is_on = is_on
        self.source: Source | None = None
        self.is_shown = False

    def update(self, source: Source) -> bool:
        """Take what the debugger looks at now; tell whether it is to be shown."""
        is_news = source != self.source or not self.is_shown
        self.source = source
        return self.is_on and is_news


class LineDisplay:
    """Ask for lines, one after another, and show what the rank says above the one that is being typed."""

    def __init__(self, host: Session) -> None:
        self._host = host
        self._prefix = PrefixKey(host.options.attach.prefix)
        self._input = LineInput(sys.stdin, self._takes_lines, self._take_lines, host.options.recording)
        self._output = terminal_output(host.options.recording)
        self._completer = RankCompleter(self._ask_completions)
        self._lexer = line_lexer(color=host.options.color)
        self._session = self._new_prompt()
        self._session.default_buffer.read_only = ~Condition(self._may_type)
        self._session.default_buffer.accept_handler = self._accept
        self._session.app.before_render += lambda _: self._check_size()
        self._talking: asyncio.Task[None] | None = None
        self._leaving = False
        self._begun = False
        self._kept: str | None = None
        """What is printed while something else has the terminal; None while this has it."""
        self._draft = ""
        self._at: PromptInfo | None = None
        self._entered_last = ""
        self._prompted = 0
        """The number of the prompt that was seen last."""
        self.indent = ""
        """The spaces that the user has not typed, at the begin of a line that goes on with a statement."""
        self._lines = Lines()
        self._sticky = _SourceView(is_on=self.size[0] >= STICKY_ROWS)

    def _new_prompt(self) -> PromptSession[str]:
        """Return a prompt that completes on Tab alone, since completing evaluates attributes in the rank."""
        options = self._host.options
        return PromptSession(
            message=self._message,
            bottom_toolbar=self._toolbar,
            lexer=DynamicLexer(lambda: self._lexer if self._takes_code() else None),
            completer=self._completer,
            complete_while_typing=False,
            auto_suggest=ConditionalAutoSuggest(AutoSuggestFromHistory(), Condition(self._takes_code)),
            history=open_history(os.environ, self._takes_code),
            key_bindings=line_keys(self, self._prefix, self._may_type),
            vi_mode=options.attach.vi,
            style=STYLE,
            color_depth=None if options.color else ColorDepth.DEPTH_1_BIT,
            cursor=CursorShape._NEVER_CHANGE,
            prompt_continuation=lambda width, number, wraps: "." * min(3, max(0, width - 1)) + " ",
            input=self._input,
            output=self._output,
        )

    # ------------------------------------------------------------------------------------------------- as a display

    @property
    def size(self) -> tuple[int, int]:
        """Return the (rows, columns) of the terminal."""
        size = self._output.get_size()
        return min(size.rows, limits.MAX_ROWS), min(size.columns, limits.MAX_COLUMNS)

    async def open(self, keys: bytes) -> None:
        """Take the terminal; ``keys`` were typed before."""
        self._output.write_raw(canvas.PUSH_TITLE.decode())
        store_typeahead(self._input, key_presses(keys))
        self._start()

    async def close(self) -> bytes:
        """Give the terminal back as it was; return the keys that were typed and not used."""
        await self._end_prompt()
        self._output.write_raw(canvas.POP_TITLE.decode())
        self._output.flush()
        return key_bytes(get_typeahead(self._input))

    def begin(self, address: str) -> None:
        """Show a rank from its beginning."""
        self._lines, self._sticky.source = Lines(), None
        self._output.write_raw(canvas.title(address).decode())
        if self._begun:
            self._print(f"Attached to {printable(address)}.\n")
        self._begun = True

    def show(self, effect: Effect) -> None:
        """Carry out an effect that is about the screen."""
        if isinstance(effect, LogText):
            self._print(self._lines.feed(effect.data))
        elif isinstance(effect, Cut):
            self._print(f"{self._lines.cut()}[… {effect.count:,} bytes of output were cut …]\n")
        elif isinstance(effect, Note):
            self._print(f"{printable(effect.text, limits.MAX_TEXT)}\n")
        elif isinstance(effect, Blank) and effect.text:
            self._print("".join(f"{printable(line)}\n" for line in effect.text.split("\n")))
        elif isinstance(effect, Look):
            self._look(effect.source)
        elif isinstance(effect, Completed):
            self._completer.answered(effect.request, effect.matches)
        elif isinstance(effect, Bell):
            self._output.bell()
            self._output.flush()

    def paint(self) -> None:
        """Draw prompt and toolbar anew."""
        app = self._session.app
        if app.is_running:
            self._indent_line()
            app.min_redraw_interval = BUSY_REDRAW_SECONDS if self._host.attachment.conversation.held else REDRAW_SECONDS
            app.invalidate()

    def resized(self) -> None:
        """Take note that the window has another size."""
        self._check_size()
        self.paint()

    async def lend(self, *, row: bool) -> None:
        """Lend the terminal to something else; a ``row`` is the one where the prompt stood."""
        await self._end_prompt()
        self._kept = ""

    def resume(self) -> None:
        """Take the terminal back."""
        kept, self._kept = self._kept or "", None
        self._print(kept)
        self._start()

    def take_keys(self, data: bytes) -> None:
        """Take keys that were typed while the terminal was lent."""
        store_typeahead(self._input, key_presses(data))

    # ------------------------------------------------------------------------------------------------- the prompt

    def _start(self) -> None:
        self._leaving = False
        self._session.app.erase_when_done = False
        self._talking = asyncio.get_running_loop().create_task(self._host.seat.watched(self._talk()))

    async def _talk(self) -> None:
        while not self._leaving:
            draft, self._draft = self._draft, ""
            try:
                text = await self._session.prompt_async(
                    default=draft, set_exception_handler=False, pre_run=self._indent_line
                )
            except _Left:
                return
            except (EOFError, OSError):
                self._host.detach()  # the terminal is gone
                return
            self._entered(text)

    async def _end_prompt(self) -> None:
        self._leave_prompt()
        if self._talking is not None:
            await self._talking
            self._talking = None

    def _leave_prompt(self) -> None:
        """End the prompt, which takes no more of the keys that are read already."""
        self._leaving = True
        app = self._session.app
        if app.is_running and not app.is_done:
            self._draft = self._session.default_buffer.text
            app.erase_when_done = True
            app.exit(exception=_Left())

    def _indent_line(self) -> None:
        """Begin the line with spaces if the rank asks for the rest of a statement, and the user has typed none."""
        prompt, buffer = self._host.attachment.conversation.prompt, self._session.default_buffer
        if prompt is None or prompt.number == self._prompted or not self._may_type():
            return
        self._prompted, self.indent = prompt.number, ""
        if prompt.state is PromptState.MORE and not buffer.text[:1].isspace():
            self.indent = indent_after(self._entered_last)
            buffer.text = self.indent + buffer.text
            buffer.cursor_position = len(buffer.text)

    def is_indented(self) -> bool:
        """Return whether the line has only the spaces that the user has not typed."""
        return bool(self.indent) and self._session.default_buffer.text == self.indent

    def _accept(self, buffer: Buffer) -> bool:
        # A quick user's line may come before the prompt is drawn.
        self._indent_line()
        # The prompt that the user sees now; a prompt that comes before the line is taken was not seen.
        attachment = self._host.attachment
        self._at = attachment.conversation.prompt if attachment.driving else None
        if len(self._pieces(buffer.text)) > 1:
            # Each piece is shown with the prompt that it answers.
            self._at = None
        # A line typed ahead is shown where the rank takes it, with the prompt that it answers.
        self._session.app.erase_when_done = self._at is None
        self._session.app.exit(result=buffer.text)
        return True

    def _entered(self, text: str) -> None:
        at, self._at = self._at, None
        self._session.app.erase_when_done = False
        if at is not None:
            self._lines.partial = ""  # it stands on the screen, before the line that was entered
        for piece in [text] if at is not None else self._pieces(text):
            self._take(piece, at)

    def _pieces(self, text: str) -> list[str]:
        """Return what was entered at once, cut into pieces for one prompt each; a question takes all of it."""
        prompt = self._host.attachment.conversation.prompt
        if prompt is not None and prompt.state is PromptState.COMMANDS:
            return [line for line in text.split("\n") if line.strip()] or [text]
        return pasted_commands(text) if prompt is None or prompt.state is PromptState.COMMAND else [text]

    def _takes_lines(self) -> bool:
        """Tell whether whole lines may be taken instead of single keys: they are added to what is typed already."""
        app, buffer = self._session.app, self._session.default_buffer
        is_plain = app.is_running and not app.is_done and app.editing_mode is EditingMode.EMACS and self._may_type()
        is_busy = self._prefix.pending or app.key_processor.key_buffer or app.current_buffer is not buffer
        return is_plain and not is_busy and buffer.complete_state is None and not buffer.document.text_after_cursor

    def _take_lines(self, lines: list[str]) -> None:
        """Take lines that came at once; each is shown with the prompt that it answers."""
        buffer = self._session.default_buffer
        for line in [("" if self.is_indented() else buffer.text) + lines[0], *lines[1:]]:
            buffer.text = line
            buffer.reset(append_to_history=True)
            self._take(line, None)
            if self._leaving:
                return

    def _take(self, text: str, at: PromptInfo | None) -> None:
        self._sticky.is_shown, self._entered_last = False, text
        word = text.strip() if at is None or at.state is PromptState.COMMAND else ""
        if word == "detach":
            self._leaving = True
            self._host.detach()
        elif word == "sticky":
            self._toggle_sticky()
        else:
            self._host.perform(self._host.attachment.conversation.enter(text, at))

    def _message(self) -> FormattedText:
        prompt = self._host.attachment.conversation.prompt
        text = "\n".join(map(printable, prompt.text.split("\n"))) if prompt is not None else ""
        return FormattedText([("class:prompt", _plain(self._lines.shown) + text)])

    def _toolbar(self) -> str:
        status = self._host.status(pending=self._prefix.pending)
        return toolbar_of(status, self._host.attachment, self._output.get_size().columns)

    def _may_type(self) -> bool:
        return self._host.attachment.may_type

    def _takes_code(self) -> bool:
        prompt = self._at or self._host.attachment.conversation.prompt
        return prompt is None or prompt.state not in _NO_CODE

    def _ask_completions(self, line: str, begin: int, end: int) -> int:
        request, effects = self._host.attachment.conversation.complete(line, begin, end)
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
            self._above(lambda: self._output.write_raw(text + reset))

    def _above(self, write: Callable[[], None]) -> None:
        """Write where the prompt stands, which is drawn again below."""
        app = self._session.app
        if app.is_running:
            app.renderer.erase()
        write()
        self._output.flush()
        self.paint()

    def _look(self, source: Source) -> None:
        if self._sticky.update(source) and self._kept is None:
            self._show_source(source)

    def _show_source(self, source: Source) -> None:
        self._sticky.is_shown = True
        shown: StyleAndTextTuples = show_source(source, self.size[1], self._lexer)
        app = self._session.app
        self._above(lambda: print_formatted_text(self._output, shown, line_style(), color_depth=app.color_depth))

    def _toggle_sticky(self) -> None:
        self._sticky.is_on = not self._sticky.is_on
        self._print(f"sticky is {'on' if self._sticky.is_on else 'off'}\n")
        if self._sticky.is_on and self._sticky.source is not None:
            self._show_source(self._sticky.source)

    # ------------------------------------------------------------------------------------------------- keys

    def prefixed(self, key: str) -> None:
        """Do what the key behind the prefix means."""
        if self._host.lends(key):
            self._leave_prompt()  # at once: the next keys are for what opens now
            self._host.lend(key, b"")
        elif not self._host.command(key):
            self._print(canvas.line_help(self._host.options.prefix_name, sticky=self._sticky.is_on))

    def interrupted(self) -> None:
        """Take Ctrl-C: drop the line; interrupt what runs."""
        buffer = self._session.default_buffer
        conversation = self._host.attachment.conversation
        if not self._may_type():
            self.refused()
            return
        typed = bool(buffer.text) and not self.is_indented()
        buffer.reset()
        if not typed or conversation.prompt is None:
            self._host.perform(conversation.interrupt())

    def ended(self) -> None:
        """Take Ctrl-D on an empty line."""
        self._session.default_buffer.reset()
        self._host.perform(self._host.attachment.conversation.end_of_input())

    def refused(self) -> None:
        """Take a key while this terminal may not type."""
        self._host.perform(self._host.attachment.refuse(self._host.now()))


def _plain(line: str) -> str:
    """Return a line without its colours."""
    return "".join(part.partition("m")[2] if number else part for number, part in enumerate(line.split("\x1b")))
