"""PuDB's window in a rank: a part that fails is reported and left out. Its error ends no stop."""

from __future__ import annotations

import copy
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import urwid
from pudb import debugger as pudb_debugger
from pudb import settings as pudb_settings
from pudb.source_view import SourceLine
from pudb.ui_tools import SelectableText, StackFrame
from pudb.var_view import SEPARATOR, VariableWidget, make_var_view

from dbg_agent.debuggers.faults import is_fault, is_fault_of_value, is_interrupt, words_of
from dbg_agent.debuggers.pudb_command_line import MAX_ENTRY
from dbg_agent.debuggers.screen import NoFile
from dbg_agent.process.imports import unwarned
from dbg_wire.messages import Notice
from dbg_wire.records.record import fitted

if TYPE_CHECKING:
    from dbg_agent.debuggers.engine import Workplace

MAX_VALUE = 10_000
"""Characters of one value that are drawn: several screens. PuDB lays out all of a value again at every key."""

MAX_ENTRIES = 4000
"""Texts that PuDB's command line keeps, most of them lines: some megabytes. The oldest texts are dropped."""

MAX_LINES_AT_ONCE = 4
"""Lines of one text: about as many as the smallest command line shows. A longer text is split into its lines."""

INTERRUPTED = "interrupted; it is not evaluated again (Del removes it, n adds it anew)"
"""Shown for a watch expression that was interrupted: another evaluation would block each later step, too."""


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


class RankUI(pudb_debugger.DebuggerUI):  # type: ignore[misc] # PuDB is not typed
    """PuDB's window."""

    def __init__(self, debugger: Any, workplace: Workplace, screen: Any) -> None:
        with making_window():
            super().__init__(debugger, NoFile(), NoFile(), None)
        self._workplace = workplace
        self._interrupted: list[Any] = []
        """The watch expressions that are not evaluated any more."""
        self._has_class_names = True
        self.screen = screen
        self.cmdline_history_path = os.devnull
        self.setup_palette(screen)
        self.source_list = self.source_sigwrap._w = ListPane(self.source, "the source")
        self.var_list._w = ListPane(self.locals, "the variables")
        self.stack_list._w = ListPane(self.stack_walker, "the stack")
        self.bp_list._w = ListPane(self.bp_walker, "the breakpoints")

    def notify(self, sentence: str) -> None:
        """Show a sentence in the window and, for a moment, in the status line of each terminal."""
        self.add_cmdline_content(sentence, "command line error")
        with self._workplace.interruptible.suspended():
            self._workplace.broker.send(fitted(Notice, text=sentence))

    def call_with_ui(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run PuDB's interaction.

        PuDB's own method replaces the process's warnings filters meanwhile, which is not safe beside other threads
        that do the same. It also stops and starts the screen, which makes the screen flicker.
        """
        with unwarned():
            return call(*args, **kwargs)

    def event_loop(self, toplevel: Any = None) -> Any:
        """Draw and take keys until PuDB or a dialog is left."""
        return super().event_loop(_SafeWindow(self, self.top if toplevel is None else toplevel))

    def show_internal_exc_dlg(self, exc_tuple: Any) -> None:
        """Say what PuDB failed with, without a dialog, since the dialog may be what fails."""
        self.notify(f"PuDB failed ({words_of(exc_tuple[1])})")

    def show_exception_dialog(self, exc_tuple: Any) -> None:
        """Show the traceback of a crash, or a sentence if the exception can't be printed."""
        try:
            super().show_exception_dialog(exc_tuple)
        except BaseException as error:
            if not is_fault_of_value(error):
                raise
            self.notify(f"the traceback can't be shown ({words_of(error)})")

    def add_cmdline_content(self, s: str, attr: str) -> None:
        """Show a text at the command line, cut at its beginning to what can be drawn at every key."""
        cut = len(s) - MAX_ENTRY
        lines = (f"[{cut} characters before this are left out]\n{s[cut:]}" if cut > 0 else s).rstrip("\n").split("\n")
        if len(lines) > MAX_LINES_AT_ONCE:
            # urwid lays out all of a long text at every key, and shows its beginning instead of its end.
            rows = [urwid.AttrMap(SelectableText(line), attr, f"focused {attr}") for line in lines[:-1]]
            self.cmdline_contents.extend(rows)
            lines = lines[-1:]
        super().add_cmdline_content("\n".join(lines), attr)
        if len(self.cmdline_contents) > MAX_ENTRIES:
            del self.cmdline_contents[: len(self.cmdline_contents) - MAX_ENTRIES]

    # ----------------------------------------------------------------------------------------------------------- views

    def set_source_code_provider(self, source_code_provider: Any, force_update: bool = False) -> None:
        """Show a source, or a sentence in its place if it can't be shown."""
        try:
            super().set_source_code_provider(source_code_provider, force_update)
        except BaseException as error:
            if not is_fault_of_value(error):
                raise
            self.source[:] = [SourceLine(self, f"the source can't be shown ({words_of(error)})")]
            self.source_code_provider, self.current_line = source_code_provider, None
        for line in self.source:
            draw_safely(line, plain_line)

    def update_breakpoints(self) -> None:
        super().update_breakpoints()
        for row in self.bp_walker:
            draw_safely(row, plain_breakpoint)

    def update_stack(self) -> None:
        """Show the stack, without the names of classes if the program's code fails to tell them."""
        if self._has_class_names:
            try:
                super().update_stack()
            except BaseException as error:
                if not is_fault_of_value(error):
                    raise
                self._has_class_names = False
                self.notify(f"the stack is shown without names of classes ({words_of(error)})")
        if not self._has_class_names:
            self._show_plain_stack()
        for row in self.stack_walker:
            draw_safely(row, plain_frame)

    def _show_plain_stack(self) -> None:
        debugger = self.debugger
        rows = [
            StackFrame(
                index == debugger.curindex,
                frame.f_code.co_name,
                None,
                self._format_fname(frame.f_code.co_filename),
                line,
            )
            for index, (frame, line) in enumerate(debugger.stack)
        ]
        is_reversed = self.translate_ui_stack_index(0) != 0
        self.stack_walker[:] = rows[::-1] if is_reversed else rows

    def update_var_view(self, locals: Any = None, globals: Any = None, focus_index: Any = None) -> None:  # noqa: A002 - PuDB's names
        """Show the variables, each on its own: a sentence stands in the place of a variable that fails."""
        frame = self.debugger.curframe
        values = frame.f_locals if locals is None else locals
        try:
            with self.debugger.busy.working():
                rows = self._rows_of(values, frame.f_globals if globals is None else globals)
        except BaseException as error:
            if not is_fault_of_value(error):
                raise
            rows = [sentence_row(f"can't be shown ({words_of(error)})", "variables")]
        self.locals[:] = rows
        if focus_index is not None and focus_index < len(self.locals):
            self.var_list._w.focus_position = focus_index

    def _rows_of(self, values: Mapping[str, Any], namespace: dict[str, Any]) -> list[Any]:
        info = self.get_frame_var_info(read_only=True)
        watches = [row for watch in info.watches for row in self._rows_of_watch(info, watch, values, namespace)]
        at_top: list[Any] = []
        rows: list[Any] = []
        without_watches = copy.copy(info)
        without_watches.watches = []
        for name in sorted(values, key=lambda name: str.lower(str(name))):
            made = self._made(name, without_watches, {name: values[name]}, namespace)
            # PuDB puts a variable that the user wants at the top before a separator.
            top = made.index(SEPARATOR) + 1 if SEPARATOR in made else 0
            at_top += made[: max(0, top - 1)]
            rows = [*made, *rows] if name == "__return__" else [*rows, *made[top:]]
        if watches:
            rows = [*watches, SEPARATOR, *rows]
        return [*at_top, SEPARATOR, *rows] if at_top else rows

    def _rows_of_watch(self, info: Any, watch: Any, values: Mapping[str, Any], namespace: dict[str, Any]) -> list[Any]:
        if any(watch is interrupted for interrupted in self._interrupted):
            return [sentence_row(INTERRUPTED, watch.expression, watch)]
        alone = copy.copy(info)
        alone.watches = [watch]
        # The frame's values are passed as globals, so that they are not shown beside the watch expression.
        rows = self._made(watch.expression, alone, {}, {**namespace, **values}, watch)
        return rows[: rows.index(SEPARATOR)] if SEPARATOR in rows else rows

    def _made(
        self, name: str, info: Any, values: dict[str, Any], namespace: dict[str, Any], watch: Any = None
    ) -> list[Any]:
        """Return the rows that PuDB makes of one value, or one row with a sentence if that fails."""
        try:
            self.debugger.busy.goes_on()
            rows = make_var_view(info, values, namespace)
        except BaseException as error:
            if not is_fault_of_value(error):
                raise
            if not is_interrupt(error):
                return [sentence_row(f"can't be shown ({words_of(error)})", str(name), watch)]
            return [self._interrupted_row(name, watch)]
        return [row if row is SEPARATOR else draw_value_safely(row) for row in rows]

    def _interrupted_row(self, name: str, watch: Any) -> Any:
        if watch is not None:
            self._interrupted.append(watch)
            return sentence_row(INTERRUPTED, name, watch)
        # The same value would block each later step, too.
        info = self.get_frame_var_info(read_only=False).get_inspect_info(name, read_only=False)
        info.display_type, info.show_detail = "type", False
        return sentence_row("interrupted; only its type is shown from here on (d, r, s: more again)", name)


class _SafeWindow:
    """A window that stays when a key raises an exception, and reports it."""

    def __init__(self, ui: RankUI, window: Any) -> None:
        self._ui = ui
        self._window = window

    def render(self, size: Any, focus: bool = False) -> Any:
        """Draw the window. PuDB is opened afresh if this fails."""
        return self._window.render(size, focus=focus)

    def keypress(self, size: Any, key: str) -> Any:
        """Do what a key means."""
        try:
            with _saving_no_configuration():
                return self._window.keypress(size, key)
        except BaseException as error:
            if not is_fault(error):
                raise
            self._ui.notify(f"PuDB failed at the key {key} ({words_of(error)})")


@contextmanager
def _saving_no_configuration() -> Iterator[None]:
    """Keep what a key changes, such as the width of a pane, out of the user's home.

    PuDB knows the path of its configuration if the program has loaded PuDB itself.
    """
    before = pudb_settings.save_config
    pudb_settings.save_config = lambda _configuration: None
    try:
        yield
    finally:
        pudb_settings.save_config = before


@contextmanager
def logging_nothing() -> Iterator[None]:
    """Keep PuDB's log records of this thread out of the job's log: PuDB logs each value that fails, at every key."""
    log, thread = logging.getLogger("ui"), threading.get_ident()

    def refuse(_record: logging.LogRecord) -> bool:
        return threading.get_ident() != thread

    log.addFilter(refuse)
    try:
        yield
    finally:
        log.removeFilter(refuse)


@contextmanager
def making_window() -> Iterator[None]:
    """Have PuDB make its window without looking at the rank's terminal or home.

    PuDB asks curses about the rank's TERM, and curses prints to the job's stderr if TERM is not set. PuDB also reads
    old command lines from a folder that must exist. Its own package folder exists and has no such file.
    """
    before = pudb_debugger.curses, pudb_debugger.get_save_config_path
    pudb_debugger.curses = None
    pudb_debugger.get_save_config_path = lambda: os.path.dirname(pudb_debugger.__file__)  # noqa: PTH120 - see stacks
    try:
        yield
    finally:
        pudb_debugger.curses, pudb_debugger.get_save_config_path = before
