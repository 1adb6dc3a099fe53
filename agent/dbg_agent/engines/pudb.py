"""PuDB as a view of a stop."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from . import Outcome
from .pudb_import import OPTIONAL_MODULES, doing_without, untraceable, unwarned
from .tracing import OWN_MODULES, Tracing

if TYPE_CHECKING:
    from ..rank import Rank

NEEDS_TERMINAL = "would use the rank's own terminal, which belongs to the job; it is not available here."
"""Why some of PuDB's keys are refused."""

NO_PREFERENCES = (
    "PuDB's preferences are not available here: they would be written to the rank's home, and a rank writes nothing "
    "there. Change them in a PuDB of your own."
)
"""Why ``Ctrl-P`` is refused, whose OK would besides fail within PuDB 2026.1."""


def build(rank: Rank) -> PudbEngine:
    """Import PuDB and build its debugger; in the stopped thread, at the first attach."""
    with unwarned(), doing_without(OPTIONAL_MODULES), untraceable():
        return PudbEngine(rank)


class PudbEngine:
    """Show stops in PuDB, one debugger for the life of the process."""

    name = "pudb"

    def __init__(self, rank: Rank) -> None:
        import pudb.debugger as pudb_debugger

        from .screen import AgentScreen, NoFile, use_utf8

        use_utf8()
        self._rank = rank
        with _without_curses(pudb_debugger):
            self._debugger = _debugger_class()(rank, stdin=NoFile(), stdout=NoFile(), skip=list(OWN_MODULES))
        # The configured shells start on the rank's own stdin; only this one lives on PuDB's screen.
        pudb_debugger.CONFIG["shell"] = "internal"
        self._screen = AgentScreen(rank)
        ui = self._debugger.ui
        ui.screen = self._screen
        ui.cmdline_history_path = os.devnull
        self._screen.set_terminal_properties(colors=256, bright_is_bold=False, has_underline=True)
        ui.setup_palette(self._screen)
        ui.call_with_ui = _call_directly
        _bind_keys(ui, self._debugger, rank)
        self._screen.start()

    def interact(self, frame: FrameType, traced: bool) -> Outcome:
        """Show PuDB at this frame until it is left."""
        outcome: Outcome = self._debugger.show(frame)
        return outcome

    def post_mortem(self, error: BaseException) -> Outcome:
        """Show PuDB where this exception was raised, with PuDB's own note of it first."""
        outcome: Outcome = self._debugger.show_crash(error)
        return outcome

    def redraw(self) -> None:
        """Forget what was drawn, of which PuDB else sends only the differences."""
        self._screen.clear()

    @property
    def tracing(self) -> Tracing:
        """Return PuDB's debugger."""
        debugger: Tracing = self._debugger
        return debugger

    def ignores(self, frame: FrameType) -> bool:
        """Tell whether the user pressed ``b`` on this very ``set_trace()`` line."""
        return not self._debugger.set_traces.get(self._debugger.place(frame), True)

    def screen(self) -> tuple[str, ...]:
        """Return the screen as it was last drawn."""
        return self._screen.text()

    def complete(self, _line: str, _begin: int, _end: int) -> tuple[str, ...]:
        """Complete nothing: PuDB does that on its own screen."""
        return ()

    def interrupt(self) -> None:
        """Do nothing: in PuDB, keys are the way."""


def _debugger_class() -> type[Any]:
    """Return PuDB's debugger as it behaves in a rank; made here since PuDB is imported late."""
    from pudb.debugger import Debugger

    class RankDebugger(Tracing, Debugger):  # type: ignore[misc] # PuDB is not typed
        """Stop one thread at a time, never raise into the program, and write nothing."""

        name = "PuDB"

        # A list of its own: the program may use PuDB by itself, and PuDB allows one debugger per list.
        _current_debugger: list[Any] = []  # noqa: RUF012 - PuDB's own way

        def __init__(self, rank: Rank, **options: Any) -> None:
            others = list(Debugger._current_debugger)
            Debugger._current_debugger.clear()
            try:
                super().__init__(rank, **options)
            finally:
                Debugger._current_debugger[:] = others

        def __del__(self) -> None:
            """Do nothing: PuDB's own way asserts that there is one debugger, and fails if its constructor did."""

        def show(self, frame: FrameType) -> Outcome:
            """Show the stop of the calling thread; return how it was left."""
            self.reset()
            self.find_bottom(frame)
            # PuDB draws the line as a breakpoint, which ``b`` switches off.
            self.set_traces.setdefault(self.place(frame), True)
            self._show_breakpoints()
            return self.leave_by(partial(super().interaction, frame))

        def show_crash(self, error: BaseException) -> Outcome:
            """Show where an exception was raised; return how PuDB was left."""
            self.reset()
            # PuDB then tells the keys that move from those that can't, and `pudb.post_mortem` itself forgets to say so.
            self.post_mortem = True
            try:
                exc_tuple = (type(error), error, error.__traceback__)
                return self.leave_by(partial(super().interaction, None, exc_tuple))
            finally:
                self.post_mortem = False

        def interaction(self, frame: FrameType | None, exc_tuple: Any = None, show_exc_dialog: bool = True) -> None:
            """Be called by bdb in the traced thread, at the end of a step or at a breakpoint."""
            if frame is not None:
                interact = partial(self.leave_by, partial(super().interaction, frame, exc_tuple))
                self._rank.traced_thread_halts("pudb", frame, interact)

        def place(self, frame: FrameType) -> tuple[str, int]:
            """Return what PuDB files a ``set_trace()`` line under."""
            return self.canonic(frame.f_code.co_filename), frame.f_lineno

        def save_breakpoints(self) -> None:
            """Write nothing: one user's file would stop every rank of every later job."""

        def _show_breakpoints(self) -> None:
            """Draw the breakpoints that the other engine has set meanwhile."""
            self.ui.update_breakpoints()
            if self.ui.source_code_provider is not None:
                self.ui.set_source_code_provider(self.ui.source_code_provider, force_update=True)

    return RankDebugger


class _without_curses:  # noqa: N801 - reads as the statement that it is used in
    """Keep PuDB from asking curses about the rank's TERM, which prints to the job's stderr if there is none."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __enter__(self) -> None:
        self._curses = self._module.curses
        self._module.curses = None

    def __exit__(self, *_error: object) -> None:
        self._module.curses = self._curses


def _call_directly(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run PuDB's interaction.

    Its own wrapper replaces the process's warnings filters meanwhile, which is not safe beside other threads that do
    the same, and stops and starts the screen, which makes it flicker.
    """
    with unwarned():
        return call(*args, **kwargs)


def _bind_keys(ui: Any, debugger: Any, rank: Rank) -> None:
    """Put our own meaning before PuDB's for keys that would end the rank or use its terminal."""

    def ask(_widget: Any, _size: Any, _key: str) -> None:
        answer = _ask_how_to_leave(ui, rank)
        if answer == "continue":
            debugger.let_go()
            ui.quit_event_loop = True
        elif answer == "kill":
            rank.kill()

    def refuse(sentence: str) -> Callable[[Any, Any, str], None]:
        def say(_widget: Any, _size: Any, _key: str) -> None:
            ui.message(sentence)

        return say

    no_editor = refuse(f"An editor {NEEDS_TERMINAL}")
    listeners = (
        (ui.top, "q", ask),
        (ui.top, "o", refuse(f"The output screen {NEEDS_TERMINAL}")),
        (ui.top, "ctrl p", refuse(NO_PREFERENCES)),
        (ui.top, "ctrl e", no_editor),
        (ui.stack_list, "ctrl e", no_editor),
    )
    for widget, key, listener in listeners:
        # At the front: the first listener that fits wins, and PuDB's own came first.
        widget.event_listeners.insert(0, (key, listener))


def _ask_how_to_leave(ui: Any, rank: Rank) -> object:
    import urwid

    whole_job = " Its launcher then ends the whole job." if rank.is_launched else ""
    text = (
        f"{rank.address} is stopped here.\n\n"
        "c  Continue: remove all breakpoints and let it run.\n"
        f"k  Kill: end this rank with SIGKILL.{whole_job}\n"
        "s  Stay here.\n\n"
        "To leave only this terminal and keep the rank stopped, type Ctrl-] d."
    )
    return ui.dialog(
        urwid.ListBox(urwid.SimpleListWalker([urwid.Text(text)])),
        # The first one has the focus, and Enter is pressed before one has read it all.
        [("Stay", "stay"), ("Continue", "continue"), ("Kill", "kill")],
        title="Leave the debugger?",
        bind_enter_esc=False,
        focus_buttons=True,
        extra_bindings=[("c", "continue"), ("k", "kill"), ("s", "stay"), ("esc", "stay"), ("q", "stay")],
    )
