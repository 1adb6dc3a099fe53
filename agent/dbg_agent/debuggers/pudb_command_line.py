"""PuDB's command line in a rank: a command can be interrupted, prints within bounds, and never ends the process."""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pudb.shell import SetPropagatingDict

from dbg_agent.debuggers.faults import is_fault_of_value, is_interrupt, words_of
from dbg_agent.frames.capture import Capture, talking_to

if TYPE_CHECKING:
    from dbg_agent.debuggers.busy import Busy

MAX_ENTRY = 64 * 1024
"""Characters of one text at the command line: many screens. The layout of a longer text takes long."""

JEDI_FRAMES = 3000
"""Depth of calls that jedi may need to complete: so high a limit it sets for the whole process when it is imported."""


class PrintedTail(Capture):
    """The end of what one command prints: the result usually stands at the end."""

    def write(self, text: str) -> int:
        """Keep text, and drop the oldest if it becomes too much."""
        self._parts.append(text)
        self._kept += len(text)
        if self._kept > 2 * MAX_ENTRY:
            self._cut()
        return len(text)

    def shown(self) -> str:
        """Return the end of what was printed, after a line that says how much is missing."""
        self._cut()
        return f"[{self.lost} lines before these are left out]\n{self.text}" if self.lost else self.text

    def _cut(self) -> None:
        whole = "".join(self._parts)
        cut = max(0, len(whole) - MAX_ENTRY // 2)
        if cut:
            # The cut is at the end of a line, unless no line ends there.
            cut = whole.find("\n", cut) + 1 or cut
        self.lost += whole.count("\n", 0, cut)
        self._parts, self._kept = [whole[cut:]], len(whole) - cut


class PudbCommandLine:
    """The command line of a PuDB window; ``leave`` asks how to leave the debugger."""

    def __init__(self, ui: Any, busy: Busy, leave: Callable[..., None]) -> None:
        self._ui = ui
        self._busy = busy
        self._leave = leave
        listeners = ui.cmdline_edit_sigwrap.event_listeners
        self._pudb_completes = next(call for key, call in listeners if key == "tab")
        listeners[:0] = [("enter", self.run), ("tab", self.complete)]

    def run(self, widget: Any, size: Any, key: str) -> None:
        """Run what was typed, in the frame that is shown."""
        ui = self._ui
        command = ui.cmdline_edit.get_edit_text()
        if not command:
            return
        ui.add_cmdline_content(f">>> {command}", "command line input")
        if not ui.cmdline_history or command != ui.cmdline_history[-1]:
            ui.cmdline_history.append(command)
        ui.cmdline_history_position, ui.cmdline_saved_edit_text = -1, ""
        error = self._run(command)
        if error is None:
            ui.cmdline_edit.set_edit_text("")
        else:
            ui.add_cmdline_content(_traceback_of(error), "command line error")
        if isinstance(error, SystemExit):
            # `exit()` means the debugger, not the rank, so it asks how to leave, as `q` does.
            ui.cmdline_edit.set_edit_text("")
            self._leave(widget, size, key)

    def _run(self, command: str) -> BaseException | None:
        """Run a command and show what it printed; return what it raised."""
        printed, frame = PrintedTail(), self._ui.debugger.curframe
        try:
            with talking_to(printed, "stdin", "stdout", "stderr"), self._busy.working():
                namespace = SetPropagatingDict([frame.f_locals, frame.f_globals], frame.f_locals)
                # Commands see the same names as in PuDB itself. Python needs a newline at the end of a loop.
                eval(compile(f"{command}\n", "<pudb command line>", "single"), {}, namespace)  # noqa: S307 - was typed
        except BaseException as error:
            if not is_fault_of_value(error):
                raise
            return error
        finally:
            if text := printed.shown():
                self._ui.add_cmdline_content(text, "command line output")
        return None

    def complete(self, widget: Any, size: Any, key: str) -> None:
        """Complete what was typed, as PuDB does, without a change to the home or to the interpreter's settings."""
        try:
            with _without_jedis_cache(), self._busy.working():
                self._pudb_completes(widget, size, key)
        except BaseException as error:
            if not is_fault_of_value(error):
                raise
            self._ui.add_cmdline_content(f"can't be completed ({words_of(error)})", "command line error")


def _traceback_of(error: BaseException) -> str:
    if is_interrupt(error):
        return "KeyboardInterrupt"
    if isinstance(error, SystemExit):
        return words_of(error)
    try:
        # Without our own frame.
        first = error.__traceback__.tb_next if error.__traceback__ is not None else None
        return "".join(traceback.format_exception(type(error), error, first))
    except BaseException as worse:
        if not is_fault_of_value(worse):
            raise
        return f"{words_of(error)}; its traceback can't be shown"


@contextmanager
def _without_jedis_cache() -> Iterator[None]:
    """Give jedi an empty temporary folder for its cache.

    jedi writes its cache in the home without a lock, so ranks that share the home would read each other's unfinished
    files. jedi has no setting that turns the cache off.
    """
    limit = sys.getrecursionlimit()
    try:
        import jedi.settings
    except ImportError:
        # PuDB itself says that jedi is missing.
        yield
        return
    sys.setrecursionlimit(limit)
    with tempfile.TemporaryDirectory(prefix="dbg-agent-") as folder:
        before, jedi.settings.cache_directory = jedi.settings.cache_directory, folder
        sys.setrecursionlimit(max(limit, JEDI_FRAMES))
        try:
            yield
        finally:
            sys.setrecursionlimit(limit)
            jedi.settings.cache_directory = before
