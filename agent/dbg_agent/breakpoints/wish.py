"""One wish to stop at a line: its condition, its hits, what is said of it, and the way from the program's code to it.

The stops of the command line (:mod:`.points`) and the breakpoints of IDEs and agents (:mod:`.line_breakpoints`) are
wishes. From Python 3.12 on the interpreter tells of their lines (:mod:`.monitored`); before, code that was compiled for
a wish calls for it (:mod:`.at_import`).
"""

from __future__ import annotations

import ast
import operator
import re
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from dbg_agent.frames.stacks import lacks_room
from dbg_agent.frames.variables import read_locals
from dbg_wire.errors import error_line
from dbg_wire.limits import MAX_CONDITION

if TYPE_CHECKING:
    from dbg_agent.breakpoints.at_import import AtImport
    from dbg_agent.breakpoints.monitored import Find, Monitored, Reached

MAX_VALUE = 1000
"""Characters of one value in a log: a line that is longer is not read."""

_HITS = re.compile(r"(==|>=|<=|>|<|%|=|)\s*([0-9]{1,9})\s*(?:==\s*([0-9]{1,9}))?")

_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "": operator.ge,
    "==": operator.eq,
    "=": operator.eq,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


class NoHits(Exception):
    """A text that is no comparison; the exception's text says what is one."""


def hits_of(text: str) -> Callable[[int], bool] | None:
    """Return what tells whether a breakpoint stops at a hit, counted from 1; None if it stops at each.

    ``3`` means ``>= 3``, and ``% 100`` means ``% 100 == 0``. Raise NoHits for another text.
    """
    text = text.strip()
    if not text:
        return None
    found = _HITS.fullmatch(text)
    if found is None:
        raise _no_hits(text)
    sign, number, rest = found[1], int(found[2]), found[3]
    if sign == "%":
        if number == 0:
            raise _no_hits(text)
        return lambda count: count % number == int(rest or 0)
    if rest is not None:
        raise _no_hits(text)
    return lambda count: _COMPARISONS[sign](count, number)


def _no_hits(text: str) -> NoHits:
    return NoHits(f"`{text}` compares no number of hits; `== 3`, `>= 10` and `% 100 == 0` do")


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


@lru_cache(maxsize=256)
def condition_code(text: str) -> CodeType:
    """Return the code of a condition. Raise SyntaxError or ValueError if it is no expression."""
    return compile(text.strip(), "<condition>", "eval", dont_inherit=True)


def evaluate_at(code: CodeType, frame: FrameType, rank: Callable[[], int]) -> Any:
    """Return the value at this frame; the name ``rank`` is this process's number if the program has no such name.

    Raise what the expression raises.
    """
    names = read_locals(frame)
    if "rank" in code.co_names and "rank" not in names and "rank" not in frame.f_globals:
        names["rank"] = rank()
    if any(isinstance(constant, CodeType) for constant in code.co_consts):
        # A comprehension or a lambda sees only its own locals and globals, so the frame's locals become globals.
        return eval(code, {**frame.f_globals, **names})  # noqa: S307 - it is the user's own
    return eval(code, frame.f_globals, names)  # noqa: S307


def holds(condition: str, frame: FrameType, rank: Callable[[], int], raised: Callable[[BaseException], None]) -> bool:
    """Tell whether a condition is true at this frame. One that raises counts as true, and ``raised`` gets its error."""
    try:
        return bool(evaluate_at(condition_code(condition), frame, rank))
    except (Exception, SystemExit) as error:
        # `exit()` in a condition must not end a training job.
        raised(error)
        return True


def raised_text(error: BaseException) -> str:
    """Return the beginning of a sentence about a condition that has raised an error."""
    return f"the condition raised {error_line(error)}"


class Wish:
    """Under which condition the program stops somewhere, and how often it came there with a true one."""

    def __init__(self, condition: str | None) -> None:
        self.cond = condition
        """The condition, under bdb's name for it: commands of debuggers change that of a breakpoint."""
        self.counted = 0
        """How often the program came there with a true condition."""
        self.problem = ""
        """What a user should know of it, although it is placed."""
        self.was_told = False
        """Whether the job's output was told of a problem."""

    @property
    def shown(self) -> str:
        """Return its name in messages."""
        raise NotImplementedError

    def holds(self, frame: FrameType, rank: Callable[[], int], warn: Callable[[str], None]) -> bool:
        """Tell whether the condition is true at this frame, and count if so. One that raises counts as true."""
        if self.cond is not None and not holds(self.cond, frame, rank, partial(self.note_raised, warn)):
            return False
        self.counted += 1
        return True

    def note_raised(self, warn: Callable[[str], None], error: BaseException) -> None:
        """Note that the condition has raised this error, for the answers to users, and warn of the first one."""
        raised = raised_text(error)
        self.problem = f"{raised}; it stops all the same"[:MAX_CONDITION]
        if not self.was_told:
            self.was_told = True
            warn(f"{self.shown}: {raised}; stopping all the same")


def come_by(
    frame: FrameType,
    is_due: Callable[[bool], bool],
    stop: Callable[[FrameType], object],
    failed: Callable[[Exception], object],
) -> None:
    """Stop the calling thread at this frame if ``is_due`` says so; only what ``stop`` raises comes out.

    ``is_due`` gets whether the thread is traced; meanwhile it is not.
    """
    tracer = sys.gettrace()
    try:
        if tracer is not None:
            # As in set_trace: no line in here, nor in a condition, is worth a step.
            sys.settrace(None)
        # Conditions and log texts need room, too: a RecursionError would count as a condition that raised.
        if lacks_room(failed) or not is_due(tracer is not None):
            return
    except Exception as error:
        # The first promise: no fault of ours ends a training job.
        failed(error)
        return
    finally:
        if tracer is not None:
            sys.settrace(tracer)
    stop(frame)


def mechanism(reached: Reached, find: Find | None = None) -> Monitored | AtImport:
    """Return what has the program come to its stops on this Python."""
    if sys.version_info >= (3, 12):
        from dbg_agent.breakpoints.monitored import Monitored

        return Monitored(reached, find)
    from dbg_agent.breakpoints.at_import import AtImport

    return AtImport(reached, find)
