"""A breakpoint of bdb with what bdb's own ones lack: a comparison of its hits, a log text, and the lines asked for.

It stands in bdb's own lists, so that PuDB draws it, pdb lists it, and both clear it.
"""

from __future__ import annotations

import bdb
import os
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from dbg_agent.breakpoints.log_points import LogText
from dbg_agent.breakpoints.wish import Wish, evaluate_at, hits_of, holds, raised_text

if TYPE_CHECKING:
    from dbg_agent.breakpoints.rank_breakpoints import BreakpointHost


class LineBreakpoint(Wish, bdb.Breakpoint):
    """A breakpoint that an IDE or an agent has set."""

    def __init__(self, file: str, line: int) -> None:
        bdb.Breakpoint.__init__(self, file, line)
        Wish.__init__(self, None)
        self.asked: dict[tuple[str, int], None] = {}
        """The files and lines by which it was asked for."""
        self.hits_text = ""
        self.log_text = ""
        self.stops_at: Callable[[int], bool] | None = None
        self.log: LogText | None = None

    @property
    def shown(self) -> str:
        """Return its file and line."""
        return shown(self)

    @staticmethod
    def check(hits: str, log: str) -> None:
        """Raise NoHits or NoLogText for texts that :meth:`wish` can't take."""
        hits_of(hits)
        if log:
            LogText(log)

    def wish(self, condition: str, hits: str, log: str) -> None:
        """Stop under these conditions from here on. A change begins to count anew. Raise NoHits or NoLogText."""
        if (self.cond or "", self.hits_text, self.log_text) == (condition, hits, log):
            return
        self.stops_at, self.log = hits_of(hits), LogText(log) if log else None
        self.cond, self.hits_text, self.log_text = condition or None, hits, log
        self.counted, self.was_told = 0, False

    def bpformat(self) -> str:
        """Return the lines by which pdb lists the breakpoint."""
        told = super().bpformat()
        if self.hits_text:
            told += f"\n\tstop only at hits {self.hits_text}"
        if self.log_text:
            told += f"\n\tlog {self.log_text} and go on"
        return told


def shown(one: bdb.Breakpoint) -> str:
    """Return the name of a breakpoint in messages."""
    return f"{os.path.basename(one.file)}:{one.line}"  # noqa: PTH119 - no pathlib in a rank


def line_breakpoint(file: str, line: int) -> LineBreakpoint:
    """Return the wished breakpoint of this line, made if there is none; a debugger's own one stays beside it."""
    for one in bdb.Breakpoint.bplist.get((file, line), ()):
        if isinstance(one, LineBreakpoint):
            return one
    return LineBreakpoint(file, line)


def breakpoint_at(frame: FrameType, file: str, line: int, host: BreakpointHost) -> bdb.Breakpoint | None:
    """Return the breakpoint that stops the frame, which comes by this line, and count all hits; None if none does."""
    there = tuple(bdb.Breakpoint.bplist.get((file, line), ()))
    stopping = [one for one in there if one.enabled and bdb.checkfuncname(one, frame) and _stops(one, frame, host)]
    return stopping[0] if stopping else None


def _stops(one: bdb.Breakpoint, frame: FrameType, host: BreakpointHost) -> bool:
    one.hits += 1
    if not _holds(one, frame, host):
        return False
    if isinstance(one, LineBreakpoint) and one.stops_at is not None and not one.stops_at(one.counted):
        return False
    if one.ignore > 0:
        one.ignore -= 1
        return False
    if isinstance(one, LineBreakpoint) and one.log is not None:
        host.print_log(one.log.filled(lambda code: evaluate_at(code, frame, host.number)))
        return False
    return True


def _holds(one: bdb.Breakpoint, frame: FrameType, host: BreakpointHost) -> bool:
    if isinstance(one, LineBreakpoint):
        return one.holds(frame, host.number, host.warn)

    def raised(error: BaseException) -> None:
        host.warn(f"{shown(one)}: {raised_text(error)}; stopping all the same")

    return one.cond is None or holds(str(one.cond), frame, host.number, raised)
