"""PuDB as a view of a stop."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..inbox import ProgramRaised
from . import Outcome
from .pudb_import import OPTIONAL_MODULES, doing_without, untraceable, unwarned

if TYPE_CHECKING:
    from ..rank import Rank

OWN_MODULES = ("dbg_agent", "dbg_agent.*", "dbg_wire", "dbg_wire.*")
"""Modules that ``s`` never steps into: stepping onto a ``set_trace()`` line must not show its inside."""


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

    def interact(self, frame: FrameType) -> Outcome:
        """Show PuDB at this frame until it is left."""
        outcome: Outcome = self._debugger.show(frame)
        return outcome

    def redraw(self) -> None:
        """Forget what was drawn, of which PuDB else sends only the differences."""
        self._screen.clear()

    def tracer(self, frame: FrameType, before: Callable[..., Any] | None) -> Callable[..., Any] | None:
        """Return PuDB's trace function if a step or breakpoints need it; else the program's own, if it had one."""
        debugger = self._debugger
        if debugger.going_on and not debugger.breaks:
            return None if getattr(before, "__self__", None) is debugger else before
        walk: FrameType | None = frame
        while walk is not None:
            debugger.adopt(walk)
            walk = walk.f_back
        trace: Callable[..., Any] = debugger.trace_dispatch
        return trace

    def ignores(self, frame: FrameType) -> bool:
        """Tell whether the user pressed ``b`` on this very ``set_trace()`` line."""
        return not self._debugger.set_traces.get(self._debugger.place(frame), True)

    def breakpoints(self) -> int:
        """Count the lines that may stop this rank again."""
        return sum(len(lines) for lines in list(self._debugger.breaks.values()))

    def screen(self) -> tuple[str, ...]:
        """Return the screen as it was last drawn."""
        return self._screen.text()


def _debugger_class() -> type[Any]:
    """Return PuDB's debugger as it behaves in a rank; made here since PuDB is imported late."""
    from pudb.debugger import Debugger

    from .screen import LeaveDebugger

    class RankDebugger(Debugger):  # type: ignore[misc] # PuDB is not typed
        """Stop one thread at a time, never raise into the program, and write nothing."""

        # A list of its own: the program may use PuDB by itself, and PuDB allows one debugger per list.
        _current_debugger: list[Any] = []  # noqa: RUF012 - PuDB's own way

        def __init__(self, rank: Rank, **options: Any) -> None:
            others = list(Debugger._current_debugger)
            Debugger._current_debugger.clear()
            try:
                super().__init__(**options)
            finally:
                Debugger._current_debugger[:] = others
            self._rank = rank
            self._stepper: int | None = None
            self.going_on = False
            self.clear_all_breaks()

        def __del__(self) -> None:
            """Do nothing: PuDB's own way asserts that there is one debugger, and fails if its constructor did."""

        def show(self, frame: FrameType) -> Outcome:
            """Show the stop of the calling thread; return how it was left."""
            self.reset()
            # Going on means for bdb to stop below this frame at the earliest; with none it would stop everywhere.
            self.botframe = frame
            while self.botframe.f_back is not None:
                self.botframe = self.botframe.f_back
            self._mark(frame)
            return self._interact(frame, None)

        def interaction(self, frame: FrameType | None, exc_tuple: Any = None, show_exc_dialog: bool = True) -> None:
            """Be called by bdb in the traced thread, at the end of a step or at a breakpoint."""
            if frame is not None:
                self._rank.traced_thread_halts(frame, lambda: self._interact(frame, exc_tuple))

        def _interact(self, frame: FrameType, exc_tuple: Any) -> Outcome:
            self.going_on = False
            try:
                super().interaction(frame, exc_tuple)
            except LeaveDebugger as leave:
                self.set_continue()
                leave.done()
            except Exception as error:
                # A fault of the debugger must not come out of a line of the program.
                self._rank.warn(f"PuDB failed and lets the rank go on ({type(error).__name__}: {error})")
                self.let_go()
            except BaseException:
                # The program's own, from a signal handler: it unwinds the program, which a step must not stop again.
                self.let_go()
                raise
            if not self.going_on:
                self._stepper = threading.get_ident()
            return Outcome.GO_ON if self.going_on else Outcome.STEP

        def place(self, frame: FrameType) -> tuple[str, int]:
            """Return what PuDB files a ``set_trace()`` line under."""
            return self.canonic(frame.f_code.co_filename), frame.f_lineno

        def _mark(self, frame: FrameType) -> None:
            # PuDB draws the line as a breakpoint, which ``b`` switches off.
            self.set_traces.setdefault(self.place(frame), True)

        def adopt(self, frame: FrameType) -> None:
            """Have this frame, already on the stack, traced line by line."""
            frame.f_trace = self.trace_dispatch
            self.botframe = frame
            if sys.version_info >= (3, 13):
                # Python 3.13's bdb restores these when it lets go of the frame.
                self.frame_trace_lines_opcodes[frame] = (frame.f_trace_lines, frame.f_trace_opcodes)
                frame.f_trace_lines = True

        def trace_dispatch(self, frame: FrameType, event: str, arg: Any) -> Any:
            """Follow the traced thread; a fault of the debugger ends the tracing, not the training."""
            try:
                follow = super().trace_dispatch(frame, event, arg)
                if event == "return" and frame.f_back is None:
                    # What is left of the thread is its end, or the interpreter's, which takes our modules apart.
                    sys.settrace(None)
                return follow
            except ProgramRaised as raised:
                to_raise = raised.error
            except Exception as error:
                # As above; this is called between two lines of the program.
                self._rank.warn(f"the debugger failed and lets the rank go on ({type(error).__name__}: {error})")
                self.let_go()
                return None
            # Out here, so that it keeps the cause and context it came with.
            raise to_raise

        def stop_here(self, frame: FrameType) -> bool:
            """Tell whether a step ends here: bdb keeps one place for all threads, but a step belongs to one."""
            if self._stepper is not None and threading.get_ident() != self._stepper:
                return False
            return bool(super().stop_here(frame))

        def set_continue(self) -> None:
            """Go on until a breakpoint, untraced if there is none."""
            super().set_continue()
            self.going_on = True
            self._stepper = None

        def set_quit(self) -> None:
            """Go on: what bdb does here is to raise in the program."""
            self.let_go()

        def let_go(self) -> None:
            """Go on without breakpoints."""
            self.clear_all_breaks()
            self.set_continue()

        def save_breakpoints(self) -> None:
            """Write nothing: one user's file would stop every rank of every later job."""

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

    def refuse(what: str) -> Callable[[Any, Any, str], None]:
        def say(_widget: Any, _size: Any, _key: str) -> None:
            ui.message(f"{what} would use the rank's own terminal, which belongs to the job; it is not available here.")

        return say

    listeners = (
        (ui.top, "q", ask),
        (ui.top, "o", refuse("The output screen")),
        (ui.top, "ctrl e", refuse("An editor")),
        (ui.stack_list, "ctrl e", refuse("An editor")),
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
        [("Continue", "continue"), ("Kill", "kill"), ("Stay", "stay")],
        title="Leave the debugger?",
        bind_enter_esc=False,
        focus_buttons=True,
        extra_bindings=[("c", "continue"), ("k", "kill"), ("s", "stay"), ("esc", "stay"), ("q", "stay")],
    )
