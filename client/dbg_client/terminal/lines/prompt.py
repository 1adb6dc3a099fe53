"""The prompt of a line debugger as prompt_toolkit makes it."""

from __future__ import annotations

import sys
from collections.abc import Callable

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory, ConditionalAutoSuggest
from prompt_toolkit.completion import Completer
from prompt_toolkit.cursor_shapes import CursorShape
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import AnyFormattedText
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.lexers import DynamicLexer, Lexer, PygmentsLexer, SimpleLexer
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import BaseStyle, Style, merge_styles
from prompt_toolkit.styles.defaults import default_pygments_style, default_ui_style

from dbg_client.streams import silence

_STYLE = Style.from_dict({"source.number": "ansibrightblack", "source.current": "bold", "source.place": "bold"})


class LineOutput(Vt100_Output):
    """Write to a terminal without asking it where its cursor is.

    An answer would come among the keys, late or never, and drawing would wait for it. A terminal that has gone away
    raises nothing here: the reading of keys tells that it is gone.
    """

    def flush(self) -> None:
        """Write what is buffered."""
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


def line_lexer(*, color: bool) -> Lexer:
    """Return what highlights Python."""
    if not color:
        return SimpleLexer()
    return PygmentsLexer.from_filename("source.py")


def line_style() -> BaseStyle:
    """Return the colours."""
    return merge_styles([default_ui_style(), default_pygments_style(), _STYLE])


def prompt_session(
    *,
    source: Input,
    screen: Vt100_Output,
    color: bool,
    message: Callable[[], AnyFormattedText],
    toolbar: Callable[[], str],
    lexer: Callable[[], Lexer | None],
    completer: Completer,
    suggests: Callable[[], bool],
    history: History,
    keys: KeyBindings,
) -> PromptSession[str]:
    """Return a prompt that completes on Tab alone, since completing evaluates attributes in the rank."""
    return PromptSession(
        message=message,
        bottom_toolbar=toolbar,
        lexer=DynamicLexer(lexer),
        completer=completer,
        complete_while_typing=False,
        auto_suggest=ConditionalAutoSuggest(AutoSuggestFromHistory(), Condition(suggests)),
        history=history,
        key_bindings=keys,
        style=_STYLE,
        color_depth=None if color else ColorDepth.DEPTH_1_BIT,
        cursor=CursorShape._NEVER_CHANGE,
        prompt_continuation=lambda width, number, wraps: "." * min(3, max(0, width - 1)) + " ",
        input=source,
        output=screen,
    )
