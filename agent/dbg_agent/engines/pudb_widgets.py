"""PuDB's rows and panes, drawn in a plainer way if PuDB fails to draw them: one value must not break the window."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import urwid
from pudb.var_view import VariableWidget

from dbg_agent.engines.faults import is_fault, words_of

MAX_VALUE = 10_000
"""Characters of one value that are drawn: several screens. PuDB lays out all of a value again at every key."""


class ListPane(urwid.ListBox):  # type: ignore[misc] # urwid is not typed
    """A list of rows; a sentence takes their place if they can't be drawn."""

    def __init__(self, walker: Any, what: str) -> None:
        super().__init__(walker)
        self._what = what

    def render(self, size: Any, focus: bool = False) -> Any:
        """Draw the list, or the sentence."""
        try:
            return super().render(size, focus)
        except Exception as error:
            if not is_fault(error):
                raise
            sentence = f"{self._what} can't be drawn ({words_of(error)})"
            return urwid.CompositeCanvas(urwid.Filler(urwid.Text(sentence), "top").render(size, focus))


def draw_safely(row: Any, plain: Callable[[Any, bool], Any], is_plain: bool = False) -> None:
    """Have a row of PuDB drawn as the widget that ``plain`` makes of it, always or only if PuDB fails to draw it.

    The methods are replaced on the row itself, since PuDB has no setting for the class of its rows.
    """
    if "render" in vars(row):
        return
    usual = row.render

    def render(size: Any, focus: bool = False) -> Any:
        if not is_plain:
            try:
                return usual(size, focus)
            except Exception as error:
                if not is_fault(error):
                    raise
        return urwid.CompositeCanvas(plain(row, focus).render(size, focus))

    row.render = render
    row.rows = lambda size, focus=False: int(render(size, focus).rows())


def draw_value_safely(row: Any) -> Any:
    """Have a row of the variables view drawn safely and with at most MAX_VALUE characters; return it."""
    if row.value_str is not None and len(row.value_str) > MAX_VALUE:
        row.value_str = f"{row.value_str[:MAX_VALUE]}… [{len(row.value_str)} characters]"
    text = f"{row.var_label}{row.value_str}"
    # PuDB counts a wide character as one column, and so loses a part of each line.
    is_wide = not text.isascii() and urwid.calc_width(text, 0, len(text)) != len(text)
    draw_safely(row, _plain_value, is_wide)
    return row


def sentence_row(text: str, label: str, watch_expr: Any = None) -> Any:
    """Return a row of the variables view with a sentence in the place of a value."""
    return draw_value_safely(VariableWidget(None, label, text, label, watch_expr=watch_expr))


def _plain_value(row: Any, focus: bool) -> Any:
    kind = f"focused {row.attr_prefix}" if focus else row.attr_prefix
    label = f"{row.prefix}{row.var_label or ''}"
    markup: list[Any] = [(f"{kind} label", f"{label}: " if row.value_str is not None else label)]
    if row.value_str:
        markup.append((f"{kind} value", row.value_str))
    return urwid.AttrMap(urwid.Text(markup, wrap="any" if row.wrap else "ellipsis"), f"{kind} value")


def _plain_text(of: Callable[[Any], str], kind: str, row: Any, focus: bool) -> Any:
    return urwid.AttrMap(urwid.Text(of(row), wrap="clip"), f"focused {kind}" if focus else kind)


def _text_of_frame(row: Any) -> str:
    owner = f" [{row.class_name}]" if row.class_name is not None else ""
    return f"{'>> ' if row.is_current else '   '}{row.name}{owner} {row.filename}:{row.line}"


def _text_of_line(row: Any) -> str:
    return f"{'>' if row.is_current else ' '}{'*' if row.has_breakpoint else ' '}{row.line_nr}{row.text}"


def _text_of_breakpoint(row: Any) -> str:
    return f"   {row.filename}:{row.line} ({row.hits} hits)"


plain_frame = partial(_plain_text, _text_of_frame, "frame name")
plain_line = partial(_plain_text, _text_of_line, "source")
plain_breakpoint = partial(_plain_text, _text_of_breakpoint, "breakpoint")
