"""The breakpoints that users have set in this rank's debuggers; terminals keep them for a later job."""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import FrameType
from typing import TYPE_CHECKING, Any

from dbg_agent.stop.loaded_sources import Loaded
from dbg_wire.limits import MAX_BREAKPOINTS, MAX_CONDITION, MAX_PATH
from dbg_wire.records.ranks import Breakpoint
from dbg_wire.records.record import fitted

if TYPE_CHECKING:
    from dbg_agent.breakpoints.wishes import LineBreakpoints


class UserBreakpoints:
    """The breakpoints as of the last :meth:`look`; ``known`` may be read from any thread.

    ``changed`` is called when :meth:`look` finds a difference.
    """

    def __init__(self, loaded: Loaded, changed: Callable[[], None]) -> None:
        self._loaded = loaded
        self._changed = changed
        self.lines: dict[str, list[int]] = {}
        """The lines with breakpoints by file, as bdb keeps them; all debuggers of the rank share them."""
        self.known: tuple[Breakpoint, ...] = ()
        self.wished: LineBreakpoints | None = None
        """What serves the breakpoints without tracing; None before the first question about them."""

    @property
    def are_traced(self) -> bool:
        """Tell whether a thread that runs on must be traced for a breakpoint; in the stopped thread."""
        return bool(self.lines) and (self.wished is None or not self.wished.refresh())

    def chosen_at(self, frame: FrameType, file: str, line: int) -> tuple[bool, Any]:
        """Tell whether breakpoints are served beside bdb, and then, which one stops the traced frame at its line."""
        if self.wished is None:
            return False, None
        return True, self.wished.chosen_in_trace(frame, file, line)

    def count(self) -> int:
        """Return how many lines have breakpoints; from any thread."""
        return sum(len(lines) for lines in list(self.lines.values()))

    def look(self) -> None:
        """Note the breakpoints now, and call ``changed`` if they differ; in the stopped thread.

        A debugger's screen or prompt calls this after each key or command, and the stop when a debugger was left.
        """
        known = tuple(_user_breakpoints(self.lines, self._loaded)) if self.lines else ()
        if self.wished is not None:
            self.wished.refresh()
        if known != self.known:
            self.known = known
            self._changed()


def _user_breakpoints(breaks: Mapping[str, Sequence[int]], loaded: Loaded) -> list[Breakpoint]:
    """Return the breakpoints on these lines that a later job is to set, in the order in which they were set."""
    import bdb

    found: dict[Breakpoint, None] = {}
    for one in list(bdb.Breakpoint.bpbynumber):
        # bdb's list also holds the breakpoints of the program's own debugger.
        if one is not None and one.enabled and not one.temporary and one.line in breaks.get(one.file, ()):
            told = _told(one, loaded)
            if told is not None:
                found[told] = None
    return list(found)[:MAX_BREAKPOINTS]


def _told(one: Any, loaded: Loaded) -> Breakpoint | None:
    """Return a breakpoint of bdb in reportable form; None if it can't be set again in another process."""
    file, line = one.file, one.line
    condition = str(one.cond).strip() if one.cond is not None else ""
    if not os.path.isabs(file) or len(file) > MAX_PATH or len(condition) > MAX_CONDITION:  # noqa: PTH117 - no pathlib
        return None
    if one.funcname is not None:
        line = _line_in_function(file, one.funcname, line)
    try:
        f"{file}{condition}".encode()
    except UnicodeEncodeError:
        # A text that can't be encoded in UTF-8 can't be sent.
        return None
    if line is None:
        return None
    return fitted(Breakpoint, file=file, line=line, condition=condition or None, text=loaded.line(file, line))


@lru_cache(maxsize=MAX_BREAKPOINTS)
def _line_in_function(file: str, function: str, line: int) -> int | None:
    """Return the line at which bdb stops for a function: bdb notes the line of the ``def``, which runs only once."""
    from dbg_agent.breakpoints.insertion import first_line_of

    try:
        return first_line_of("".join(linecache.getlines(file)), function, line)
    except (SyntaxError, ValueError, RecursionError):
        return None
