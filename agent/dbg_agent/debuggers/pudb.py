"""PuDB as a view of a stop; if PuDB raises an exception, the stop is shown in pdb.

Only :mod:`dbg_agent.debuggers.pudb_import` imports this module, because it loads PuDB.
"""

from __future__ import annotations

import logging
import os
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import urwid
from pudb import debugger as pudb_debugger
from pudb import settings as pudb_settings
from pudb.debugger import Debugger
from pudb.shell import SetPropagatingDict

from dbg_agent.debuggers.busy import Busy
from dbg_agent.debuggers.engine import Engine
from dbg_agent.debuggers.faults import error_text, is_fault, is_fault_of_value, is_interrupt
from dbg_agent.debuggers.screen import AgentScreen, NoFile, use_utf8
from dbg_agent.debuggers.workplace import Workplace
from dbg_agent.frames.capture import Capture, redirected
from dbg_agent.process.imports import unwarned
from dbg_agent.stop.inbox import DebuggerExit, Redraw, SwitchDebugger
from dbg_wire.errors import printable
from dbg_wire.records.ranks import PUDB

NEEDS_TERMINAL = "would use the rank's own terminal, which belongs to the job; it is not available here."
"""Reason for rejecting the keys of PuDB that need a terminal."""

NO_PREFERENCES = (
    "PuDB's preferences are not available here: they would be written to the rank's home, and a rank writes nothing "
    "there. Change them in your own PuDB."
)
"""Reason for rejecting ``Ctrl-P``. Its OK button would also fail in PuDB 2026.1."""

NO_COMPLETION = "PuDB's completion is not available here: it writes to the rank's home. Use pdb for completion."

MAX_VALUE = 10_000
"""Maximum number of characters of one value that PuDB draws, because it lays out the whole value again at every key."""

MAX_ENTRY = 64 * 1024
"""Maximum number of characters of one text at the command line: many screens. To lay out a longer text takes too
long."""

MAX_ENTRIES = 4000
"""Maximum number of texts, mostly lines, that PuDB's command line keeps, so that they use only some megabytes. The
oldest are dropped."""


def make(workplace: Workplace) -> Engine:
    """Make the rank's PuDB and its screen."""
    use_utf8()
    screen = AgentScreen(workplace)
    screen.set_terminal_properties(colors=256, bright_is_bold=False, has_underline=True)
    with _making_window():
        debugger = RankDebugger(workplace, screen, stdin=NoFile(), stdout=NoFile())
    # Only PuDB's internal shell runs on PuDB's screen. The shells that a user may choose instead read the rank's stdin.
    pudb_debugger.CONFIG["shell"] = "internal"
    debugger.open_afresh()
    screen.start()
    return debugger


class RankDebugger(Engine, Debugger):  # type: ignore[misc] # PuDB is not typed
    """PuDB that stops one thread at a time, raises nothing in the program, and writes no file."""

    name = PUDB
    title = "PuDB"

    # PuDB keeps its only debugger in this list of its class. The agent's class has a list of its own, because the
    # program may use PuDB by itself.
    _current_debugger: list[Any] = []  # noqa: RUF012 - PuDB's own way

    def __init__(self, workplace: Workplace, screen: Any, **options: Any) -> None:
        self._screen = screen
        self.busy = Busy(workplace.interruptible, workplace.stops, workplace.broker.call_later)
        self._first_shown: int | None = None
        others = list(Debugger._current_debugger)
        Debugger._current_debugger.clear()
        try:
            super().__init__(workplace, **options)
        finally:
            Debugger._current_debugger[:] = others

    def __del__(self) -> None:
        """Do nothing: PuDB's own method asserts that a debugger exists, and fails if the constructor failed."""

    def interact(self, frame: FrameType, traced: bool) -> DebuggerExit:
        """Show PuDB at this frame until it is left."""
        self.reset()
        self.find_bottom(frame)
        # This makes PuDB draw the line as a breakpoint, which ``b`` switches off.
        self.set_traces.setdefault(self.place(frame), True)
        return self.leave_by(partial(self._show_or_fall_back, frame))

    def show_crash(self, error: BaseException) -> DebuggerExit:
        """Show PuDB where this exception was raised, after PuDB's own dialog about it."""
        self.reset()
        # This makes PuDB reject keys that would move the thread. `pudb.post_mortem` itself doesn't set it.
        self.post_mortem = True
        try:
            exc_tuple = (type(error), error, error.__traceback__)
            return self.leave_by(partial(self._show_or_fall_back, None, exc_tuple))
        finally:
            self.post_mortem = False

    def interaction(self, frame: FrameType | None, exc_tuple: Any = None, show_exc_dialog: bool = True) -> None:
        """Show PuDB in the traced thread at the end of a step or at a breakpoint; bdb calls this."""
        if frame is not None:
            self._workplace.thread.traced_thread_halts(
                PUDB, frame, partial(self.leave_by, partial(self._show_or_fall_back, frame, exc_tuple))
            )

    def open_afresh(self) -> None:
        """Make a new window, and clear the record of the last drawing."""
        self._screen.clear()
        self.ui = RankUI(self, self._screen)
        _bind_keys(self.ui, self, self._workplace)

    def _show_or_fall_back(self, *arguments: Any) -> None:
        """Run PuDB's interaction until it is left; if it fails, show the same stop in pdb."""
        try:
            with self.busy.interruptible(), _leaving_no_trace():
                self._draw_breakpoints()
                super().interaction(*arguments)
        except BaseException as error:
            if not is_fault(error):
                raise
            problem = error_text(error)
        else:
            return
        # The next stop is shown in PuDB again.
        self.open_afresh()
        self._workplace.tracing.show_in_pdb(f"PuDB can't show this stop ({problem}); this is pdb instead")
        raise SwitchDebugger

    def select(self, frame: FrameType) -> None:
        """Show this frame of the stack at once."""
        for number, (known, _) in enumerate(self.stack):
            if known is frame:
                self.set_frame_index(number)
        self._draw_now()

    def redraw(self) -> None:
        """Clear the record of the last drawing, because PuDB otherwise sends only the differences."""
        self._screen.clear()

    def note(self, text: str) -> None:
        """Show a line in the output of the command line."""
        self.ui.add_cmdline_content(f"{text}\n", "command line error")

    def ignores(self, frame: FrameType) -> bool:
        """Return True if the user pressed ``b`` on this very ``set_trace()`` line."""
        return not self.set_traces.get(self.place(frame), True)

    def screen(self) -> tuple[str, ...]:
        """Return the screen as it was last drawn."""
        shown: tuple[str, ...] = self._screen.text()
        return shown

    @property
    def is_working(self) -> bool:
        """Whether code of the program works for PuDB, which accepts no key during that time; read from any thread."""
        return self.busy.is_working

    def interrupt(self) -> None:
        """Interrupt PuDB's work, if it neither draws nor waits for a key."""
        self.busy.interrupt()

    def get_shortened_stack(self, frame: FrameType | None, tb: Any) -> Any:
        """Return the frames and the index of the one to show first; keep that index for :meth:`set_frame_index`."""
        stack, index = super().get_shortened_stack(frame, tb)
        self._first_shown = index
        return stack, index

    def set_frame_index(self, index: int) -> None:
        """Show this frame; for a crash PuDB itself would show the innermost frame first."""
        first, self._first_shown = self._first_shown, None
        super().set_frame_index(index if first is None else first)

    def place(self, frame: FrameType) -> tuple[str, int]:
        """Return the key of a ``set_trace()`` line in PuDB's dictionary of such lines."""
        return self.canonic(frame.f_code.co_filename), frame.f_lineno

    def save_breakpoints(self) -> None:
        """Write nothing: the saved file would stop every rank of the user's later jobs."""

    def show_breakpoints(self) -> None:
        """Draw the breakpoints next to the source and in their list, at once."""
        self._draw_breakpoints()
        self._draw_now()

    def _draw_now(self) -> None:
        self._workplace.inbox.put(self._workplace.stops.number, Redraw())

    def _draw_breakpoints(self) -> None:
        """Draw the breakpoints, because the other engine may have set some."""
        self.ui.update_breakpoints()
        if self.ui.source_code_provider is not None:
            self.ui.set_source_code_provider(self.ui.source_code_provider, force_update=True)


class RankUI(pudb_debugger.DebuggerUI):  # type: ignore[misc] # PuDB is not typed
    """PuDB's window; its command line can be interrupted, prints limited output, and never ends the process."""

    def __init__(self, debugger: RankDebugger, screen: Any) -> None:
        with _making_window():
            super().__init__(debugger, NoFile(), NoFile(), None)
        self._busy = debugger.busy
        self.screen = screen
        self.cmdline_history_path = os.devnull
        self.setup_palette(screen)

    def call_with_ui(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run PuDB's interaction. This method replaces PuDB's own method.

        PuDB's own method replaces the process's warnings filters, which is not safe if other threads do the same. It
        also stops and starts the screen, which makes the screen flicker.
        """
        with unwarned():
            return call(*args, **kwargs)

    def show_internal_exc_dlg(self, exc_tuple: Any) -> None:
        """Raise PuDB's failure, so that pdb shows the stop. PuDB would show a dialog, which may fail, too."""
        raise exc_tuple[1]

    def add_cmdline_content(self, s: str, attr: str) -> None:
        """Show a text at the command line; cut off its beginning if it is too long to be drawn at every key."""
        # urwid lays out all of a long text at every key, and shows its beginning instead of its end.
        for line in s[-MAX_ENTRY:].rstrip("\n").split("\n"):
            super().add_cmdline_content(line, attr)
        del self.cmdline_contents[: max(0, len(self.cmdline_contents) - MAX_ENTRIES)]

    def update_stack(self) -> None:
        """Show the stack, which may run code of the program: PuDB asks objects for their class."""
        self._work(super().update_stack)

    def update_var_view(self, *arguments: Any, **named: Any) -> None:
        """Show the variables, which runs code of the program."""
        self._work(partial(super().update_var_view, *arguments, **named))
        for row in self.locals:
            text = getattr(row, "value_str", None)
            if text is not None and len(text) > MAX_VALUE:
                row.value_str = f"{text[:MAX_VALUE]}… [{len(text)} characters]"
            if text is not None and not f"{row.var_label}{text}".isascii():
                _draw_plainly(row)

    def _work(self, draw: Callable[[], None]) -> None:
        try:
            with self._busy.working():
                draw()
        except KeyboardInterrupt as error:
            # The value's own code may have raised KeyboardInterrupt, which must not end the program.
            raise RuntimeError(error_text(error)) from error

    # ---------------------------------------------------------------------------------------------------- command line

    def run_command(self, leave: Callable[..., None], widget: Any, size: Any, key: str) -> None:
        """Run the typed command in the frame that is shown."""
        command = self.cmdline_edit.get_edit_text()
        if not command:
            return
        self.add_cmdline_content(f">>> {command}", "command line input")
        if not self.cmdline_history or command != self.cmdline_history[-1]:
            self.cmdline_history.append(command)
        self.cmdline_history_position, self.cmdline_saved_edit_text = -1, ""
        error = self._run(command)
        if error is not None:
            self.add_cmdline_content(_traceback_of(error), "command line error")
        if error is None or isinstance(error, SystemExit):
            self.cmdline_edit.set_edit_text("")
        if isinstance(error, SystemExit):
            # `exit()` refers to the debugger, not the rank, so it asks how to leave, as `q` does.
            leave(widget, size, key)

    def _run(self, command: str) -> BaseException | None:
        """Run a command and show its output; return the exception that it raised, or None."""
        printed, frame = Capture(), self.debugger.curframe
        try:
            with redirected(printed, "stdin", "stdout", "stderr"), self._busy.working():
                namespace = SetPropagatingDict([frame.f_locals, frame.f_globals], frame.f_locals)
                # Commands see the same names as in PuDB itself. Python needs a newline at the end of a loop.
                eval(compile(f"{command}\n", "<pudb command line>", "single"), {}, namespace)  # noqa: S307 - was typed
        except BaseException as error:
            if not is_fault_of_value(error):
                raise
            return error
        finally:
            if text := printed.text:
                lost = f"\n[{printed.lost} more characters are lost]" if printed.lost else ""
                self.add_cmdline_content(text + lost, "command line output")
        return None


def _draw_plainly(row: Any) -> None:
    """Make urwid lay out a row of the variables, because PuDB counts a wide character as one column."""

    def render(size: Any, focus: bool = False) -> Any:
        kind = f"focused {row.attr_prefix}" if focus else row.attr_prefix
        markup = [(f"{kind} label", f"{row.prefix}{row.var_label or ''}: "), (f"{kind} value", row.value_str)]
        text = urwid.Text(markup, wrap="any" if row.wrap else "ellipsis")
        return urwid.CompositeCanvas(urwid.AttrMap(text, f"{kind} value").render(size, focus))

    row.render = render
    row.rows = lambda size, focus=False: int(render(size, focus).rows())


def _traceback_of(error: BaseException) -> str:
    if is_interrupt(error):
        return "KeyboardInterrupt"
    if isinstance(error, SystemExit):
        return error_text(error)
    try:
        # The first frame is the agent's own, and is not shown.
        first = error.__traceback__.tb_next if error.__traceback__ is not None else None
        return "".join(traceback.format_exception(type(error), error, first))
    except BaseException as worse:
        if not is_fault_of_value(worse):
            raise
        return f"{error_text(error)}; its traceback can't be shown"


@contextmanager
def _leaving_no_trace() -> Iterator[None]:
    """Keep PuDB's log records of this thread out of the job's log, and its configuration out of the user's home.

    PuDB logs each value that it can't show, each time a key is pressed. If the program has loaded PuDB itself, PuDB
    knows the path of its configuration and would write the file.
    """
    log, thread, save = logging.getLogger("ui"), threading.get_ident(), pudb_settings.save_config

    def refuse(_record: logging.LogRecord) -> bool:
        return threading.get_ident() != thread

    def save_elsewhere(configuration: Any) -> None:
        if threading.get_ident() != thread:
            save(configuration)

    log.addFilter(refuse)
    pudb_settings.save_config = save_elsewhere
    try:
        yield
    finally:
        pudb_settings.save_config = save
        log.removeFilter(refuse)


@contextmanager
def _making_window() -> Iterator[None]:
    """Make PuDB create its window without accessing the rank's terminal or home.

    PuDB asks curses about the rank's TERM, and curses prints to the job's stderr if TERM is not set. PuDB also reads
    old command lines from a file in a folder that must exist. Here the folder is PuDB's own package, which contains no
    such file.
    """
    before = pudb_debugger.curses, pudb_debugger.get_save_config_path
    pudb_debugger.curses = None
    pudb_debugger.get_save_config_path = lambda: os.path.dirname(pudb_debugger.__file__)  # noqa: PTH120 - see stacks
    try:
        yield
    finally:
        pudb_debugger.curses, pudb_debugger.get_save_config_path = before


def _bind_keys(ui: RankUI, debugger: RankDebugger, workplace: Workplace) -> None:
    """Rebind the keys that would end the rank or use its terminal."""

    def ask(_widget: Any, _size: Any, _key: str) -> None:
        answer = _ask_how_to_leave(ui, workplace)
        if answer == "continue":
            debugger.release()
            ui.quit_event_loop = True
        elif answer == "kill":
            workplace.kill()

    def refuse(sentence: str) -> Callable[[Any, Any, str], None]:
        def say(_widget: Any, _size: Any, _key: str) -> None:
            ui.message(sentence)

        return say

    no_editor = refuse(f"An editor {NEEDS_TERMINAL}")
    listeners = (
        (ui.top, "q", ask),
        (ui.top, "o", refuse(f"The output screen {NEEDS_TERMINAL} {_output()}")),
        (ui.top, "ctrl p", refuse(NO_PREFERENCES)),
        (ui.top, "ctrl e", no_editor),
        (ui.stack_list, "ctrl e", no_editor),
        (ui.cmdline_edit_sigwrap, "enter", partial(ui.run_command, ask)),
        (ui.cmdline_edit_sigwrap, "tab", refuse(NO_COMPLETION)),
    )
    for widget, key, listener in listeners:
        # The first listener of a key takes precedence, so these go before PuDB's own.
        widget.event_listeners.insert(0, (key, listener))


def _output() -> str:
    """Return a sentence with the location of the program's output."""
    try:
        path = os.readlink("/proc/self/fd/1")  # noqa: PTH115 - in a rank
    except OSError:
        return ""
    if path.startswith("/") and not path.startswith("/dev/"):
        return f"The program's output is in {printable(path)}."
    return "The program's output goes to its launcher; `dbg-attach run` keeps it in a file and prints its path."


def _ask_how_to_leave(ui: RankUI, workplace: Workplace) -> object:
    crash = workplace.halt.crash
    whole_job = " Its launcher then ends the whole job." if workplace.is_launched() else ""
    button = "Resume" if crash is not None else "Continue"
    then = crash.continue_effect if crash is not None else "remove all breakpoints and resume the rank"
    text = (
        f"{workplace.broker.address} is stopped here.\n\n"
        f"c  {button}: {then}.\n"
        f"k  Kill: end this rank with SIGKILL.{whole_job}\n"
        "s  Stay here.\n\n"
        "To leave only this terminal and keep the rank stopped, type Ctrl-] d."
    )
    return ui.dialog(
        urwid.ListBox(urwid.SimpleListWalker([urwid.Text(text)])),
        # The first button must be harmless: it has the focus, and users press Enter before they have read the text.
        [("Stay", "stay"), (button, "continue"), ("Kill", "kill")],
        title="Leave the debugger?",
        bind_enter_esc=False,
        focus_buttons=True,
        extra_bindings=[("c", "continue"), ("k", "kill"), ("s", "stay"), ("esc", "stay"), ("q", "stay")],
    )
