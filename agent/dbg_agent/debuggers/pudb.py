"""PuDB as a view of a stop. Only :mod:`dbg_agent.debuggers.pudb_import` imports this module, which loads PuDB."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

import urwid
from pudb import debugger as pudb_debugger
from pudb.debugger import Debugger, NullSourceCodeProvider

from dbg_agent.debuggers.busy import Busy
from dbg_agent.debuggers.engine import Engine
from dbg_agent.debuggers.faults import is_fault, words_of
from dbg_agent.debuggers.pudb_command_line import PudbCommandLine
from dbg_agent.debuggers.pudb_ui import RankUI, logging_nothing, making_window
from dbg_agent.debuggers.screen import AgentScreen, NoFile, use_utf8
from dbg_agent.stop.inbox import Redraw, SwitchDebugger, WayOut
from dbg_wire.errors import printable
from dbg_wire.records.ranks import PUDB

if TYPE_CHECKING:
    from dbg_agent.debuggers.engine import Workplace

NEEDS_TERMINAL = "would use the rank's own terminal, which belongs to the job; it is not available here."
"""Why some of PuDB's keys are refused."""

NO_PREFERENCES = (
    "PuDB's preferences are not available here: they would be written to the rank's home, and a rank writes nothing "
    "there. Change them in a PuDB of your own."
)
"""Why ``Ctrl-P`` is refused. Its OK button would also fail in PuDB 2026.1."""


def make(workplace: Workplace) -> Engine:
    """Make the rank's PuDB and its screen."""
    use_utf8()
    screen = AgentScreen(workplace)
    screen.set_terminal_properties(colors=256, bright_is_bold=False, has_underline=True)
    with making_window():
        debugger = RankDebugger(workplace, screen, stdin=NoFile(), stdout=NoFile())
    # The other shells start on the rank's own stdin; only the internal shell lives on PuDB's screen.
    pudb_debugger.CONFIG["shell"] = "internal"
    debugger.open_afresh()
    screen.start()
    return debugger


class RankDebugger(Engine, Debugger):  # type: ignore[misc] # PuDB is not typed
    """PuDB that stops one thread at a time, raises nothing in the program, and writes no file."""

    name = PUDB
    title = "PuDB"

    # A list of its own: the program may use PuDB by itself, and PuDB allows one debugger per list.
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

    def interact(self, frame: FrameType, traced: bool) -> WayOut:
        """Show PuDB at this frame until it is left."""
        self.reset()
        self.find_bottom(frame)
        # PuDB then draws the line as a breakpoint, which ``b`` switches off.
        self.set_traces.setdefault(self.place(frame), True)
        self._draw_breakpoints()
        return self.leave_by(partial(self._show_somehow, frame))

    def show_crash(self, error: BaseException) -> WayOut:
        """Show PuDB where this exception was raised, after PuDB's own dialog about it."""
        self.reset()
        # PuDB then refuses the keys that would move the thread. `pudb.post_mortem` itself doesn't set this.
        self.post_mortem = True
        try:
            exc_tuple = (type(error), error, error.__traceback__)
            return self.leave_by(partial(self._show_somehow, None, exc_tuple))
        finally:
            self.post_mortem = False

    def interaction(self, frame: FrameType | None, exc_tuple: Any = None, show_exc_dialog: bool = True) -> None:
        """Show PuDB in the traced thread at the end of a step or at a breakpoint; bdb calls this."""
        if frame is not None:
            interact = partial(self.leave_by, partial(self._show_somehow, frame, exc_tuple))
            self._workplace.thread.traced_thread_halts(PUDB, frame, interact)

    def open_afresh(self) -> None:
        """Make a new window."""
        self._screen.clear()
        self.ui = RankUI(self, self._workplace, self._screen)
        _bind_keys(self.ui, self, self._workplace)

    def _show_somehow(self, *arguments: Any) -> None:
        """Run PuDB's interaction until it is left. The stop stays if PuDB fails: in a new window, or else in pdb."""
        problem = self._show(arguments)
        if problem is None:
            return
        self.open_afresh()
        self.ui.notify(f"PuDB failed and was opened afresh ({problem})")
        problem = self._show(arguments)
        if problem is not None:
            self._workplace.tracing.show_in_pdb(f"PuDB can't show this stop ({problem}); this is pdb in its place")
            raise SwitchDebugger

    def _show(self, arguments: Any) -> str | None:
        """Run PuDB's interaction; return what it failed with, or None if it was left."""
        try:
            with self.busy.interruptible(), logging_nothing():
                super().interaction(*arguments)
        except BaseException as error:
            if not is_fault(error):
                raise
            return words_of(error)
        return None

    def select(self, frame: FrameType) -> None:
        """Show this frame of the stack at once."""
        for number, (known, _) in enumerate(self.stack):
            if known is frame:
                self.set_frame_index(number)
        self._draw_now()

    def redraw(self) -> None:
        """Forget what was drawn, since PuDB otherwise sends only the differences."""
        self._screen.clear()

    def note(self, text: str) -> None:
        """Show a line in the output of the command line."""
        self.ui.add_cmdline_content(f"{text}\n", "command line error")

    def ignores(self, frame: FrameType) -> bool:
        """Tell whether the user pressed ``b`` on this very ``set_trace()`` line."""
        return not self.set_traces.get(self.place(frame), True)

    def screen(self) -> tuple[str, ...]:
        """Return the screen as it was last drawn."""
        shown: tuple[str, ...] = self._screen.text()
        return shown

    @property
    def is_working(self) -> bool:
        """Tell whether code of the program works for PuDB, which takes no key meanwhile; from any thread."""
        return self.busy.is_working

    def interrupt(self) -> None:
        """Interrupt what PuDB does, if it neither draws nor waits for a key."""
        self.busy.interrupt()

    def get_shortened_stack(self, frame: FrameType | None, tb: Any) -> Any:
        """Return the frames and the index of the one to show first; note that one for a crash."""
        stack, index = super().get_shortened_stack(frame, tb)
        self._first_shown = index
        return stack, index

    def set_frame_index(self, index: int) -> None:
        """Show this frame, without its source if that can't be read."""
        first, self._first_shown = self._first_shown, None
        # PuDB itself begins at the innermost frame of a crash.
        index = index if first is None else first
        try:
            super().set_frame_index(index)
        except Exception as error:
            self.ui.notify(f"the source can't be shown ({words_of(error)})")
            self.ui.set_current_line(self.stack[index][1], NullSourceCodeProvider())
            self.ui.update_var_view()
            self.ui.update_stack()

    def place(self, frame: FrameType) -> tuple[str, int]:
        """Return PuDB's key for a ``set_trace()`` line."""
        return self.canonic(frame.f_code.co_filename), frame.f_lineno

    def save_breakpoints(self) -> None:
        """Write nothing: the saved file would stop every rank of the user's later jobs."""

    def show_breakpoints(self) -> None:
        """Draw the breakpoints beside the source and in their list, at once."""
        self._draw_breakpoints()
        self._draw_now()

    def _draw_now(self) -> None:
        self._workplace.inbox.put(self._workplace.stops.number, Redraw())

    def _draw_breakpoints(self) -> None:
        """Draw the breakpoints that the other engine may have set meanwhile."""
        self.ui.update_breakpoints()
        if self.ui.source_code_provider is not None:
            self.ui.set_source_code_provider(self.ui.source_code_provider, force_update=True)


def _bind_keys(ui: Any, debugger: Any, workplace: Workplace) -> None:
    """Give the keys that would end the rank or use its terminal another meaning than PuDB's."""

    def ask(_widget: Any, _size: Any, _key: str) -> None:
        answer = _ask_how_to_leave(ui, workplace)
        if answer == "continue":
            debugger.let_go()
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
    )
    for widget, key, listener in listeners:
        # The first listener of a key wins, so these go before PuDB's own.
        widget.event_listeners.insert(0, (key, listener))
    PudbCommandLine(ui, debugger.busy, ask)


def _output() -> str:
    """Return where the output of the program is."""
    try:
        path = os.readlink("/proc/self/fd/1")  # noqa: PTH115 - in a rank
    except OSError:
        return ""
    if path.startswith("/") and not path.startswith("/dev/"):
        return f"What the program prints is in {printable(path)}."
    return "What the program prints goes to its launcher; `dbg-attach run` keeps it in a file and says in which."


def _ask_how_to_leave(ui: Any, workplace: Workplace) -> object:
    crash = workplace.halt.crash
    whole_job = " Its launcher then ends the whole job." if workplace.is_launched() else ""
    button = "Let go" if crash is not None else "Continue"
    then = crash.what_continue_does if crash is not None else "remove all breakpoints and let it run"
    text = (
        f"{workplace.broker.address} is stopped here.\n\n"
        f"c  {button}: {then}.\n"
        f"k  Kill: end this rank with SIGKILL.{whole_job}\n"
        "s  Stay here.\n\n"
        "To leave only this terminal and keep the rank stopped, type Ctrl-] d."
    )
    return ui.dialog(
        urwid.ListBox(urwid.SimpleListWalker([urwid.Text(text)])),
        # The first button has the focus, and users press Enter before they have read the text.
        [("Stay", "stay"), (button, "continue"), ("Kill", "kill")],
        title="Leave the debugger?",
        bind_enter_esc=False,
        focus_buttons=True,
        extra_bindings=[("c", "continue"), ("k", "kill"), ("s", "stay"), ("esc", "stay"), ("q", "stay")],
    )
