"""A breakpoint of bdb with what bdb's own ones lack: a comparison of its hits, a log text, and the lines asked for.

It stands in bdb's own lists, so that PuDB draws it, pdb lists it, and both clear it.
"""

from __future__ import annotations

import bdb
from collections.abc import Callable
from functools import partial
from types import FrameType

from dbg_agent.breakpoints.conditions import evaluate_at, hits_of, holds
from dbg_agent.breakpoints.log_text import LogText


class LineBreakpoint(bdb.Breakpoint):
    """A breakpoint that an IDE or an agent has set."""

    def __init__(self, file: str, line: int) -> None:
        super().__init__(file, line)
        self.asked: dict[tuple[str, int], None] = {}
        """The files and lines by which it was asked for."""
        self.hits_text = ""
        self.log_text = ""
        self.problem = ""
        """What a user should know of it, although it is set."""
        self.counted = 0
        """How often the program came there with a true condition."""
        self.was_told = False
        """Whether the condition's error was told."""
        self.stops_at: Callable[[int], bool] | None = None
        self.log: LogText | None = None

    @staticmethod
    def check(hits: str, log: str) -> None:
        """Raise NoHits or NoLogText for texts that :meth:`wish` can't take."""
        hits_of(hits)
        if log:
            LogText(log)

    def wish(self, condition: str, hits: str, log: str) -> None:
        """Stop under these conditions from here on. A change begins to count anew. Raise NoHits or NoLogText."""
        if (str(self.cond or ""), self.hits_text, self.log_text) == (condition, hits, log):
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


def line_breakpoint(file: str, line: int) -> LineBreakpoint:
    """Return the wished breakpoint of this line, made if there is none; a debugger's own one stays beside it."""
    for one in bdb.Breakpoint.bplist.get((file, line), ()):
        if isinstance(one, LineBreakpoint):
            return one
    return LineBreakpoint(file, line)


class Here:
    """What a breakpoint needs of its rank when the program comes by; called in the program's thread."""

    def __init__(
        self,
        rank: Callable[[], int],
        report_raised: Callable[[bdb.Breakpoint, BaseException], None],
        print_log: Callable[[str], None],
    ) -> None:
        self.rank, self.report_raised, self.print_log = rank, report_raised, print_log


def breakpoint_at(frame: FrameType, file: str, line: int, here: Here) -> bdb.Breakpoint | None:
    """Return the breakpoint that stops the frame, which comes by this line, and count all hits; None if none does."""
    there = tuple(bdb.Breakpoint.bplist.get((file, line), ()))
    stopping = [one for one in there if one.enabled and bdb.checkfuncname(one, frame) and _stops(one, frame, here)]
    return stopping[0] if stopping else None


def _stops(one: bdb.Breakpoint, frame: FrameType, here: Here) -> bool:
    one.hits += 1
    if one.cond is not None and not holds(str(one.cond), frame, here.rank, partial(here.report_raised, one)):
        return False
    if isinstance(one, LineBreakpoint):
        one.counted += 1
        if one.stops_at is not None and not one.stops_at(one.counted):
            return False
    if one.ignore > 0:
        one.ignore -= 1
        return False
    if isinstance(one, LineBreakpoint) and one.log is not None:
        here.print_log(one.log.filled(lambda code: evaluate_at(code, frame, here.rank)))
        return False
    return True
