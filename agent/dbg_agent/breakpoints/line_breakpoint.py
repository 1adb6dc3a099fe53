"""A breakpoint of bdb with what bdb's own ones lack: a comparison of its hits, a log text, and the lines asked for.

It stands in bdb's own lists, so that PuDB draws it, pdb lists it, and both clear it.
"""

from __future__ import annotations

import ast
import bdb
import os
from collections.abc import Callable
from types import CodeType

from dbg_agent.breakpoints.wish import Wish, hits_of

MAX_VALUE = 1000
"""Characters of one value in a log: a line that is longer is not read."""

MAX_OF_RANK = 10
"""Texts of one rank in a second: nobody reads more lines than that while they come."""

MAX_OF_JOB = 2000
"""Texts of all ranks of a job in a second, if the job has fewer ranks than that: the broker passes on as many."""


class NoLogText(Exception):
    """A text with braces that hold no expression; the exception's text says so."""


class LogText:
    """A text with values. Raise NoLogText if what stands in braces is no expression."""

    def __init__(self, text: str) -> None:
        self._parts = [_part(part) for part in _parsed(text)]

    def filled(self, evaluate: Callable[[CodeType], object]) -> str:
        """Return the text with its values. An error stands in the place of a value that can't be told."""
        return "".join(part if isinstance(part, str) else _shown(part, evaluate) for part in self._parts)


def _parsed(text: str) -> list[ast.expr]:
    """Return the texts and values of an f-string."""
    if "{" not in text:
        # A brace that closes nothing stands for itself.
        return [ast.Constant(text.replace("}}", "}"))]
    # A raw string takes backslashes as they are; the blank behind keeps one of them, or a quote, from the quotes.
    quotes = "'''" if "'''" not in text else '"""'
    try:
        parsed = ast.parse(f"rf{quotes}{text} {quotes}", "<log point>", "eval").body
        if not isinstance(parsed, ast.JoinedStr):
            raise NoLogText(f"`{text}` is no text with values in braces")
        for part in parsed.values:
            compile(_formatted(part), "<log point>", "eval", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NoLogText(f"`{text}` holds no expression between braces; `{{{{` and `}}}}` stand for braces") from None
    *_, last = parsed.values
    if isinstance(last, ast.Constant):
        last.value = str(last.value)[:-1]
    return parsed.values


def _part(part: ast.expr) -> str | CodeType:
    """Return a text as it is, and for a value the code that makes its text."""
    if isinstance(part, ast.Constant):
        return str(part.value)
    return compile(_formatted(part), "<log point>", "eval", dont_inherit=True)


def _formatted(part: ast.expr) -> ast.Expression:
    return ast.fix_missing_locations(ast.Expression(ast.JoinedStr([part])))


def _shown(value: CodeType, evaluate: Callable[[CodeType], object]) -> str:
    try:
        text = str(evaluate(value))
    except (Exception, SystemExit) as error:
        text = f"<{type(error).__name__}: {error}>"
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"


class LogPace:
    """The texts of one rank: so many in a second are told, and the others are counted.

    For any thread, without a lock, which a signal's code or a forked child could find taken: of two threads that come
    in the same moment one text may be missing in the count.
    """

    def __init__(self, world_size: int) -> None:
        self._rate = max(1, min(MAX_OF_RANK, MAX_OF_JOB // world_size))
        self._second = 0
        self._told = 0
        self._left_out = 0
        self._last = ""
        self._is_due = False

    def line(self, text: str, now: float) -> str | None:
        """Return the line to tell for a text, with the number of those that were left out before; None to leave it out.

        ``now`` is in seconds.
        """
        if int(now) != self._second:
            self._second, self._told = int(now), 0
        if self._told >= self._rate:
            self._left_out, self._last = self._left_out + 1, text
            return None
        self._told += 1
        return self._after(self._left_out, text)

    def is_last_due(self) -> bool:
        """Tell whether :meth:`last` is to be called a second from now, since a text was left out; once until then."""
        was_due, self._is_due = self._is_due, True
        return not was_due

    def last(self) -> str | None:
        """Return the line to tell for the last text if that was left out; None if another one was told since."""
        self._is_due = False
        left_out, text = self._left_out, self._last
        return self._after(left_out - 1, text) if left_out else None

    def _after(self, left_out: int, text: str) -> str:
        self._left_out, self._last = 0, ""
        # In front, since the end of a long text is cut off on the way.
        return f"({left_out} more before this one: see the job's output) {text}" if left_out else text


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
