"""The terminal as prompt_toolkit has it: keys and what is drawn; history, completion and source of a line debugger."""

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
"""Seconds after which a lone Esc is the Esc key; the bytes of an arrow key come together."""


def key_presses(data: bytes) -> list[KeyPress]:
    """Return the keys that these bytes are."""
    presses: list[KeyPress] = []
    parser = Vt100Parser(presses.append)
    parser.feed_and_flush(data.decode("utf-8", "surrogateescape"))
    return presses


def key_bytes(presses: Iterable[KeyPress]) -> bytes:
    """Return the bytes that these keys were typed as."""
    return "".join(press.data for press in presses).encode("utf-8", "surrogateescape")


class LineOutput(Vt100_Output):
    """Write to a terminal without asking it where its cursor is.

    An answer would come among the keys, late or never, and drawing would wait for it. A terminal that has gone away
    raises nothing here: the reading of keys tells that it is gone.
    """

    recording: Recording | None = None
    """The recording of the session, if there is one."""

    def flush(self) -> None:
        """Write the buffered text, and record it."""
        if self.recording is not None:
            # A recording is played where no terminal driver returns to the begin of the line.
            self.recording.shown("".join(self._buffer).replace("\r\n", "\n").replace("\n", "\r\n"))
        try:
            super().flush()
        except BlockingIOError:
            return
        except OSError:
            silence(sys.stdout)  # what it still holds must not fail at the interpreter's exit

    @property
    def responds_to_cpr(self) -> bool:
        """Return False, so that the terminal is not asked."""
        return False

    def get_rows_below_cursor_position(self) -> int:
        """Return how many rows are there at least: the cursor's own."""
        return 1


def terminal_output(recording: Recording | None = None) -> LineOutput:
    """Return an output that draws a few rows where the terminal's cursor stands."""
    output = cast(LineOutput, LineOutput.from_pty(sys.stdout, term=os.environ.get("TERM")))
    output.recording = recording
    return output


class PrefixKey:
    """The escape key and the key behind it, however late that comes; ``prefix`` is its byte, None for no such key."""

    def __init__(self, prefix: bytes | None) -> None:
        self.prefix = prefix
        self.pending = False

    def bind(self, keys: KeyBindings, second: Callable[[KeyPressEvent], None]) -> None:
        """Have ``second`` called with the key that follows the escape key."""
        if self.prefix is None:
            return
        byte = self.prefix.decode("latin-1")
        key = ANSI_SEQUENCES.get(byte, byte)
        is_pending = Condition(lambda: self.pending)

        @keys.add(*(key if isinstance(key, tuple) else (key,)), eager=True, filter=~is_pending)
        def _begin(event: KeyPressEvent) -> None:
            self.pending = True

        @keys.add(Keys.Any, eager=True, filter=is_pending)
        def _second(event: KeyPressEvent) -> None:
            self.pending = False
            second(event)


DELIMITERS = " \t\n`@#%^&*()=+[{]}\\|;:'\",<>?"
"""Characters that end a word to pdb: ``.`` and ``/`` don't, since names have attributes and files directories."""

MAX_PARTIAL = 4096
"""Characters of a line without an end that are kept for the prompt's line; a longer one is broken here."""


Ask = Callable[[str, int, int], int]
"""Asks the rank what ``line[begin:end]`` may become; returns the number that the answer will bear."""


def word_start(line: str) -> int:
    """Return where the word begins that ends ``line``."""
    return max((line.rfind(delimiter) for delimiter in DELIMITERS), default=-1) + 1


class RankCompleter(Completer):
    """Complete the word before the cursor with what the rank finds; what comes late is dropped."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._waiting: dict[int, asyncio.Future[tuple[str, ...]]] = {}

    def answered(self, request: int, matches: tuple[str, ...]) -> None:
        """Take the rank's answer."""
        waiting = self._waiting.get(request)
        if waiting is not None and not waiting.done():
            waiting.set_result(matches)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return nothing: only the asynchronous way can wait for a rank."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Yield what the rank answers within COMPLETION_SECONDS."""
        line, end = document.current_line, document.cursor_position_col
        begin = word_start(line[:end])
        answer: asyncio.Future[tuple[str, ...]] = asyncio.get_running_loop().create_future()
        request = self._ask(line, begin, end)
        self._waiting[request] = answer
        try:
            matches = await within(COMPLETION_SECONDS, answer)
        except TimeoutError:
            return
        finally:
            del self._waiting[request]
        for match in matches[:MAX_COMPLETIONS]:
            # A match that would act on the terminal is no name and no file that a user wants to type.
            if match.isprintable():
                yield Completion(match, start_position=begin - end, display=match.rpartition(".")[2] or match)


_ENTERED: list[str] = []
"""Lines entered so far, for the whole process: sessions come and go while the user stays."""

MAX_ENTERED = 1000
"""Lines that the arrow up goes back; an older one is typed again sooner than it is found."""


class UserHistory(InMemoryHistory):
    """The lines that this process was given at any prompt, of which those are kept that ``keeps`` says."""

    def __init__(self, keeps: Callable[[], bool]) -> None:
        super().__init__(_ENTERED)
        self._keeps = keeps

    def append_string(self, string: str) -> None:
        """Keep a line."""
        if self._keeps():
            super().append_string(string)
            _ENTERED.append(string)
            del _ENTERED[:-MAX_ENTERED]


class Lines:
    """Hand out whole lines; ``partial`` is the one that has begun, and belongs before the prompt."""

    def __init__(self) -> None:
        self._filter = TextFilter()
        self.partial = ""

    def feed(self, data: bytes) -> str:
        """Take the next bytes; return the lines that are complete, each with its end."""
        text = self.partial + self._filter.feed(data)
        whole, end, self.partial = text.rpartition("\n")
        if len(self.partial) > MAX_PARTIAL:
            whole, end, self.partial = text, "\n", ""
        # A progress bar draws over itself: what it said last is its line.
        return "".join(f"{_last(line)}\n" for line in whole.split("\n")) if end else ""

    @property
    def shown(self) -> str:
        """The line that has begun, as it looks now."""
        return _last(self.partial)

    def cut(self) -> str:
        """Begin anew after a gap; return the line that had begun, with an end."""
        left, self.partial = self.shown, ""
        self._filter = TextFilter()
        return f"{left}\n" if left else ""


def _last(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]
