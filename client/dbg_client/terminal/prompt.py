"""Terminal support for prompt_toolkit: keys and output; history, completion and lines of a line debugger."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import cast

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.output.vt100 import Vt100_Output

from dbg_client.shell.streams import silence
from dbg_client.terminal.recording import Recording
from dbg_command.sequences import TextFilter
from dbg_dial.tcp import within
from dbg_wire.limits import COMPLETION_SECONDS, MAX_COMPLETIONS

ESCAPE_SECONDS = 0.05
"""Seconds after which a single Esc is the Esc key; the bytes of an arrow key arrive together."""


def key_presses(data: bytes) -> list[KeyPress]:
    """Parse these bytes into keys."""
    presses: list[KeyPress] = []
    parser = Vt100Parser(presses.append)
    parser.feed_and_flush(data.decode("utf-8", "surrogateescape"))
    return presses


def key_bytes(presses: Iterable[KeyPress]) -> bytes:
    """Return the bytes of these keys, as they were typed."""
    return "".join(press.data for press in presses).encode("utf-8", "surrogateescape")


class LineOutput(Vt100_Output):
    """Output to a terminal that is never asked for its cursor position.

    The answer would arrive among the keys, late or never, and drawing would wait for the answer. Output to a closed
    terminal raises nothing here, because reading the keys reports that the terminal is gone.
    """

    recording: Recording | None = None
    """Recording of the session, if there is one."""

    def flush(self) -> None:
        """Write the buffered text, and record it."""
        if self.recording is not None:
            # Newlines are recorded with a carriage return: a recording is played without a terminal driver to add it.
            self.recording.shown("".join(self._buffer).replace("\r\n", "\n").replace("\n", "\r\n"))
        try:
            super().flush()
        except BlockingIOError:
            return
        except OSError:
            silence(sys.stdout)  # or the flush at the interpreter's exit would fail

    @property
    def responds_to_cpr(self) -> bool:
        """False, so that the terminal is not asked for its cursor position."""
        return False

    def get_rows_below_cursor_position(self) -> int:
        """Return 1, for the cursor's own row: the cursor's position is unknown, and there may be no row below."""
        return 1


def terminal_output(recording: Recording | None = None) -> LineOutput:
    """Return an output that draws a few rows at the terminal's cursor."""
    output = cast(LineOutput, LineOutput.from_pty(sys.stdout, term=os.environ.get("TERM")))
    output.recording = recording
    return output


class PrefixKey:
    """Binding of the escape key and the key after it, however long the user waits between them.

    ``prefix`` is the escape key's byte, or None for no escape key.
    """

    def __init__(self, prefix: bytes | None) -> None:
        self.prefix = prefix
        self.pending = False

    def bind(self, keys: KeyBindings, second: Callable[[KeyPressEvent], None]) -> None:
        """Call ``second`` with each key that follows the escape key."""
        if self.prefix is None:
            return
        byte = self.prefix.decode("latin-1")
        key = ANSI_SEQUENCES.get(byte, byte)
        is_pending = Condition(lambda: self.pending)

        @keys.add(*(key if isinstance(key, tuple) else (key,)), eager=True, filter=~is_pending)
        def _start(event: KeyPressEvent) -> None:
            self.pending = True

        @keys.add(Keys.Any, eager=True, filter=is_pending)
        def _second(event: KeyPressEvent) -> None:
            self.pending = False
            second(event)


DELIMITERS = " \t\n`@#%^&*()=+[{]}\\|;:'\",<>?"
"""Characters that end a word in pdb. Not ``.`` and ``/``, because they are part of dotted names and of paths."""

MAX_PARTIAL = 4096
"""Maximum characters of an incomplete line, which is shown before the prompt; a longer line is ended and printed."""


Ask = Callable[[str, int, int], int]
"""Asks the rank for completions of ``line[start:end]``; returns the number of the request."""


def word_start(line: str) -> int:
    """Return the start of the last word of ``line``."""
    return max((line.rfind(delimiter) for delimiter in DELIMITERS), default=-1) + 1


class RankCompleter(Completer):
    """Completer that asks the rank about the word before the cursor; late answers are dropped."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._waiting: dict[int, asyncio.Future[tuple[str, ...]]] = {}

    def answered(self, request: int, matches: tuple[str, ...]) -> None:
        """Handle the rank's answer."""
        waiting = self._waiting.get(request)
        if waiting is not None and not waiting.done():
            waiting.set_result(matches)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return nothing, because only the asynchronous method can wait for a rank."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Yield the completions that the rank returns within COMPLETION_SECONDS."""
        line, end = document.current_line, document.cursor_position_col
        start = word_start(line[:end])
        answer: asyncio.Future[tuple[str, ...]] = asyncio.get_running_loop().create_future()
        request = self._ask(line, start, end)
        self._waiting[request] = answer
        try:
            matches = await within(COMPLETION_SECONDS, answer)
        except TimeoutError:
            return
        finally:
            del self._waiting[request]
        for match in matches[:MAX_COMPLETIONS]:
            # Nobody wants to type a name or a file with control characters.
            if match.isprintable():
                yield Completion(match, start_position=start - end, display=match.rpartition(".")[2] or match)


_ENTERED: list[str] = []
"""Lines entered so far in this process, because one user has several sessions."""

MAX_ENTERED = 1000
"""Maximum number of lines in the history; users type an older line again faster than they find it."""


class UserHistory(InMemoryHistory):
    """Lines entered in this process at any prompt; ``keeps`` decides whether a line is kept."""

    def __init__(self, keeps: Callable[[], bool]) -> None:
        super().__init__(_ENTERED)
        self._keeps = keeps

    def append_string(self, string: str) -> None:
        """Append a line if it is to be kept."""
        if self._keeps():
            super().append_string(string)
            _ENTERED.append(string)
            del _ENTERED[:-MAX_ENTERED]


class Lines:
    """Line buffer of output; ``partial`` is the incomplete line, which is shown before the prompt."""

    def __init__(self) -> None:
        self._filter = TextFilter()
        self.partial = ""

    def feed(self, data: bytes) -> str:
        """Add the next bytes; return the lines that are complete, each with its end."""
        text = self.partial + self._filter.feed(data)
        whole, end, self.partial = text.rpartition("\n")
        if len(self.partial) > MAX_PARTIAL:
            whole, end, self.partial = text, "\n", ""
        # A progress bar overwrites itself several times in one line, so only the text after its last redraw is kept.
        return "".join(f"{_last(line)}\n" for line in whole.split("\n")) if end else ""

    @property
    def shown(self) -> str:
        """The incomplete line, as it looks now."""
        return _last(self.partial)

    def cut(self) -> str:
        """Return the incomplete line, if any, with a line end, because later output was lost. Reset the filter."""
        left, self.partial = self.shown, ""
        self._filter = TextFilter()
        return f"{left}\n" if left else ""


def _last(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]
