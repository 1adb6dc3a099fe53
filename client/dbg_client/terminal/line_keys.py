"""What is typed at a line debugger: keys beyond editing, pasted lines, and what each of them does."""

from __future__ import annotations

import ast
import codeop
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TextIO

from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from dbg_client.terminal.escape import COMMANDS, HELP
from dbg_client.terminal.prompt_keys import PrefixKey
from dbg_client.terminal.recording import Recording

if TYPE_CHECKING:
    from dbg_client.terminal.line_display import LineDisplay

ENTER = frozenset({Keys.ControlM, Keys.ControlJ})

AT_ONCE = 2
"""Lines in one read that nobody types so fast: they were typed ahead, or pasted into a plain terminal."""

_NAMES = """
EOF a alias args b break bt c cl clear commands condition cont continue d debug disable display down enable exceptions
exit h help ignore interact j jump l list ll longlist n next p pp q quit r restart return retval run rv s source step
tbreak u unalias undisplay unt until up w whatis where
"""

SEVERAL_COMMANDS = frozenset(_NAMES.split())
"""What pdb's prompt takes for a command, in all releases of Python."""

GOES_ON = ("elif ", "else:", "else ", "except ", "except:", "finally:", "finally ", ")", "]", "}")
"""Beginnings of a line that belongs to the statement above it."""


def line_keys(display: LineDisplay, prefix: PrefixKey, may_type: Callable[[], bool]) -> KeyBindings:
    """Return the keys of a line debugger's display."""
    keys = KeyBindings()
    keys.add("c-c")(lambda event: display.interrupted())
    keys.add("<sigint>")(lambda event: display.interrupted())
    keys.add("escape", "enter", filter=Condition(may_type))(_break_line)
    keys.add("f4")(_toggle_editing)

    @keys.add("c-d")
    def _ended(event: KeyPressEvent) -> None:
        if event.current_buffer.text and not display.is_indented():
            event.current_buffer.delete()
        else:
            display.ended()

    @keys.add(" ", filter=Condition(display.is_indented))
    @keys.add(Keys.BracketedPaste, filter=Condition(display.is_indented))
    def _indented(event: KeyPressEvent) -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        if text[:1].isspace():
            # These spaces are the line's own.
            event.current_buffer.text = display.indent = ""
        event.current_buffer.insert_text(text)

    for key in (Keys.Any, Keys.BracketedPaste, "enter", "backspace", "tab", "up", "down"):
        keys.add(key, filter=~Condition(may_type))(lambda event: display.refused())
    prefix.bind(keys, lambda event: _prefixed(event, display, prefix.prefix or b""))
    return keys


def _prefixed(event: KeyPressEvent, display: LineDisplay, prefix: bytes) -> None:
    byte = prefix.decode("latin-1")
    if event.data == byte or (event.data == "]" and event.key_sequence[-1].key == "]"):
        event.current_buffer.insert_text(byte)
    elif event.key_sequence[-1].key == Keys.BracketedPaste or event.data not in COMMANDS:
        display.prefixed(HELP)
    else:
        display.prefixed(event.data)


def _break_line(event: KeyPressEvent) -> None:
    event.current_buffer.newline(copy_margin=False)


def _toggle_editing(event: KeyPressEvent) -> None:
    app = event.app
    app.editing_mode = EditingMode.EMACS if app.editing_mode is EditingMode.VI else EditingMode.VI


class LineInput(Vt100Input):
    """Read keys; hand whole lines of plain text that came in one read to ``take``, if ``takes`` says so.

    A prompt takes a millisecond for every key, and begins anew for every line: a thousand lines took half a minute.
    """

    def __init__(
        self,
        stdin: TextIO,
        takes: Callable[[], bool],
        take: Callable[[list[str]], None],
        recording: Recording | None = None,
    ) -> None:
        super().__init__(stdin)
        self._takes = takes
        self._take = take
        self._recording = recording

    def read_keys(self) -> list[KeyPress]:
        """Return the keys that are to be looked at one by one."""
        keys = super().read_keys()
        if self._recording is not None:
            self._recording.typed("".join(press.data for press in keys))
        lines, rest = whole_lines(keys)
        if len(lines) < AT_ONCE or not self._takes():
            return keys
        self._take(lines)
        return rest


def whole_lines(keys: Iterable[KeyPress]) -> tuple[list[str], list[KeyPress]]:
    """Return the lines that these keys begin with, up to a key that is neither a character nor Enter; and the rest."""
    lines: list[str] = []
    rest = list(keys)
    begun: list[str] = []
    for number, press in enumerate(tuple(rest)):
        if press.key in ENTER:
            lines.append("".join(begun))
            begun.clear()
            done = number + 1
        elif len(press.key) == 1 and press.key.isprintable():
            begun.append(press.key)
        else:
            break
    return lines, rest[done:] if lines else rest


def pasted_commands(text: str) -> list[str]:
    """Return what is to be given to one prompt after the other: lines, and statements of several lines.

    The text is one block if it is Python and none of its statements is just the name of a command: ``n`` below ``n`` is
    two steps. Empty lines between commands are left out, since pdb would repeat the command before them.
    """
    stripped = text.strip("\n")
    if "\n" not in stripped or _is_block(stripped):
        return [text]
    pieces: list[str] = []
    for line in stripped.split("\n"):
        if pieces and _belongs_to(pieces[-1], line):
            pieces[-1] += f"\n{line}"
        elif line.strip():
            pieces.append(line)
    return [piece.rstrip("\n") for piece in pieces]


def _is_block(text: str) -> bool:
    if not _compiles(text):
        return False
    names = (statement.value for statement in ast.parse(text).body if isinstance(statement, ast.Expr))
    return not any(isinstance(name, ast.Name) and name.id in SEVERAL_COMMANDS for name in names)


def _belongs_to(piece: str, line: str) -> bool:
    if line[:1] in (" ", "\t") or line.startswith(GOES_ON):
        return True
    # The piece may be an open statement, e.g. in brackets; pdb's own commands are no Python, and end with their line.
    return not _compiles(piece) and _is_incomplete(piece)


def _compiles(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<pasted>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return False
    return True


def _is_incomplete(text: str) -> bool:
    try:
        return codeop.compile_command(text, "<pasted>", "exec") is None
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return False
