"""The terminal as prompt_toolkit has it: keys and what is drawn; history, completion and source of a line debugger."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from pathlib import Path
from typing import cast

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.lexers import Lexer, PygmentsLexer, SimpleLexer
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import BaseStyle, Style, merge_styles
from prompt_toolkit.styles.defaults import default_pygments_style, default_ui_style

from dbg_client.shell.streams import silence
from dbg_client.terminal.recording import Recording
from dbg_client.views.list import show_place
from dbg_client.views.table import clip
from dbg_command.home import write_whole
from dbg_command.sequences import TextFilter
from dbg_dial.tcp import within
from dbg_wire.errors import printable
from dbg_wire.limits import COMPLETION_SECONDS, MAX_COMPLETIONS
from dbg_wire.messages import Source

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


class KeyInput(Vt100Input):
    """Standard input, whose keys are recorded if the session is."""

    def __init__(self, recording: Recording | None) -> None:
        super().__init__(sys.stdin)
        self._recording = recording

    def read_keys(self) -> list[KeyPress]:
        """Return the keys that have come."""
        keys = super().read_keys()
        if self._recording is not None:
            self._recording.typed("".join(press.data for press in keys))
        return keys


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

    def bind_for_session(self, keys: KeyBindings, leave: Callable[[KeyPressEvent, bytes], None]) -> None:
        """Have ``leave`` called with both keys, which are for the session; the escape key twice means nothing."""

        def second(event: KeyPressEvent) -> None:
            if len(event.data) == 1 and event.data.isprintable() and event.data != "]":
                leave(event, (self.prefix or b"") + event.data.encode())

        self.bind(keys, second)


STYLE = Style.from_dict({"source.number": "ansibrightblack", "source.current": "bold", "source.place": "bold"})

DELIMITERS = " \t\n`@#%^&*()=+[{]}\\|;:'\",<>?"
"""Characters that end a word to pdb: ``.`` and ``/`` don't, since names have attributes and files directories."""

MAX_BYTES = 1024 * 1024
"""Bytes of the file, some twenty thousand lines; when it is longer its older half goes."""

MAX_SHOWN = 1000
"""Characters of one line; no terminal is wider."""

MAX_PARTIAL = 4096
"""Characters of a line without an end that are kept for the prompt's line; a longer one is broken here."""


def line_lexer(*, color: bool) -> Lexer:
    """Return what highlights Python."""
    if not color:
        return SimpleLexer()
    return PygmentsLexer.from_filename("source.py")


def line_style() -> BaseStyle:
    """Return the colours."""
    return merge_styles([default_ui_style(), default_pygments_style(), STYLE])


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


def open_history(environ: Mapping[str, str], keeps: Callable[[], bool]) -> History:
    """Return the history of this user, kept in a private file where possible.

    ``keeps`` is asked before a line is stored. Never raises: without a file the history is this session's own.
    """
    path = history_path(environ)
    if path is not None:
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
            path.chmod(0o600)
            _shorten(path)
            return _UserHistory(path, keeps)
    return _UserHistory(Path(os.devnull), keeps)


def history_path(environ: Mapping[str, str]) -> Path | None:
    """Return where the file is, ``$XDG_STATE_HOME/dbg-broker/pdb_history``; None if nothing names a home."""
    state, user = environ.get("XDG_STATE_HOME", ""), environ.get("HOME", "")
    if Path(state).is_absolute():
        return Path(state) / "dbg-broker" / "pdb_history"
    return Path(user) / ".local" / "state" / "dbg-broker" / "pdb_history" if Path(user).is_absolute() else None


class _UserHistory(FileHistory):
    """A file of lines, to which lines are added only while ``keeps`` says so."""

    def __init__(self, path: Path, keeps: Callable[[], bool]) -> None:
        super().__init__(str(path))
        self._keeps = keeps

    def append_string(self, string: str) -> None:
        if self._keeps():
            super().append_string(string)

    def store_string(self, string: str) -> None:
        # A full disk must not end the session.
        with contextlib.suppress(OSError):
            super().store_string(string)


def _shorten(path: Path) -> None:
    if path.stat().st_size <= MAX_BYTES:
        return
    with path.open("rb") as file:
        file.seek(-MAX_BYTES // 2, os.SEEK_END)
        kept = file.read()
    # Entries begin with a blank line and a comment; half of one is no entry.
    kept = kept[max(0, kept.find(b"\n# ")) :]
    write_whole(path, kept)


def show_source(source: Source, columns: int, lexer: Lexer) -> StyleAndTextTuples:
    """Return the place, then each line with its number, ``B`` at breakpoints and ``->`` at the current one.

    Lines are cut to ``columns``, and nothing in them acts on the terminal.
    """
    shown: StyleAndTextTuples = [("class:source.place", clip(show_place(source.where) or "", columns)), ("", "\n")]
    digits = len(str(source.first + len(source.lines)))
    room = columns - digits - len(" B-> ")
    lines = [clip(printable(line.rstrip("\r\n").expandtabs(), MAX_SHOWN), room) for line in source.lines]
    highlighted = lexer.lex_document(Document("\n".join(lines)))
    for index in range(len(lines)):
        number = source.first + index
        current = number == source.where.line
        mark = f"{number:>{digits}} {'B' if number in source.breakpoints else ' '}{'->' if current else '  '} "
        style = "class:source.current" if current else "class:source.number"
        shown += [(style, mark), *highlighted(index), ("", "\n")]
    return shown


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
