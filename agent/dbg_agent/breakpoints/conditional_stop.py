"""Base of all breakpoints at a line: condition, hit count, status message, and the entry point of instrumented code.

It serves the stops of the command line (:mod:`.startup_stops`) and the breakpoints of IDEs and agents
(:mod:`.line_breakpoints`). From Python 3.12 on the interpreter reports their lines (:mod:`.monitored`). On Python 3.11
a file is compiled with a call before each of these lines (:mod:`.at_import`).
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

from dbg_agent.frames.stacks import reports_no_room
from dbg_agent.frames.variables import read_locals
from dbg_wire.errors import error_line
from dbg_wire.limits import MAX_CONDITION

if TYPE_CHECKING:
    from dbg_agent.breakpoints.at_import import AtImport
    from dbg_agent.breakpoints.monitored import Find, Monitored, Reached

MAX_VALUE = 1000
"""Maximum number of characters of one value in a log text, because nobody reads longer lines."""

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
    """Raised when a text is not a comparison with the number of hits. The message shows valid comparisons."""


def hits_of(text: str) -> Callable[[int], bool] | None:
    """Return a function that returns True if the n-th hit stops the rank; None if every hit stops the rank.

    Hits are numbered from 1. ``3`` means ``>= 3``, and ``% 100`` means ``% 100 == 0``.
    Raise NoHits if the text is not a comparison.
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
    return NoHits(f"`{text}` is not a comparison of hits; write for example `== 3`, `>= 10` or `% 100 == 0`")


class NoLogText(Exception):
    """Raised when the braces in a log text do not contain an expression. The message quotes the text."""


class LogText:
    """A log text with expressions in braces. Raise NoLogText if the braces do not contain an expression."""

    def __init__(self, text: str) -> None:
        self._parts = [_part(part) for part in _parsed(text)]

    def filled(self, evaluate: Callable[[CodeType], object]) -> str:
        """Return the text with its values. If an expression raises, the error replaces its value."""
        return "".join(part if isinstance(part, str) else _shown(part, evaluate) for part in self._parts)


def _parsed(text: str) -> list[ast.expr]:
    """Parse the log text like an f-string. Return its parts: constants and values."""
    if "{" not in text:
        # A closing brace without an opening one is literal.
        return [ast.Constant(text.replace("}}", "}"))]
    # A raw string keeps backslashes. The blank before the closing quotes keeps them apart from a final backslash or
    # quote.
    quotes = "'''" if "'''" not in text else '"""'
    try:
        parsed = ast.parse(f"rf{quotes}{text} {quotes}", "<log point>", "eval").body
        if not isinstance(parsed, ast.JoinedStr):
            raise NoLogText(f"`{text}` is not a text with values in braces")
        for part in parsed.values:
            compile(_formatted(part), "<log point>", "eval", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NoLogText(f"the braces in `{text}` hold no expression; write `{{{{` and `}}}}` for braces") from None
    *_, last = parsed.values
    if isinstance(last, ast.Constant):
        last.value = str(last.value)[:-1]
    return parsed.values


def _part(part: ast.expr) -> str | CodeType:
    """Return a constant as a string, and a value as the code that formats it."""
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
    """Compile a condition. Raise SyntaxError or ValueError if it is not an expression."""
    return compile(text.strip(), "<condition>", "eval", dont_inherit=True)


def evaluate_at(code: CodeType, frame: FrameType, rank: Callable[[], int]) -> Any:
    """Evaluate the code in this frame and return its value. Exceptions of the expression propagate.

    The name ``rank`` is this process's rank number unless the program has a variable of this name.
    """
    names = read_locals(frame)
    if "rank" in code.co_names and "rank" not in names and "rank" not in frame.f_globals:
        names["rank"] = rank()
    if any(isinstance(constant, CodeType) for constant in code.co_consts):
        # A comprehension or a lambda sees only its own locals and globals, so the frame's locals become globals.
        return eval(code, {**frame.f_globals, **names})  # noqa: S307 - the user's own expression
    return eval(code, frame.f_globals, names)  # noqa: S307


def holds(condition: str, frame: FrameType, rank: Callable[[], int], raised: Callable[[BaseException], None]) -> bool:
    """Return True if the condition is true in this frame, or if it raises; ``raised`` is called with the exception."""
    try:
        return bool(evaluate_at(condition_code(condition), frame, rank))
    except (Exception, SystemExit) as error:
        # `exit()` in a condition must not end a training job.
        raised(error)
        return True


def raised_text(error: BaseException) -> str:
    """Return the first part of the message about a condition that raised ``error``."""
    return f"the condition raised {error_line(error)}"


class ConditionalStop:
    """A place where the program stops if a condition is true, and the number of hits with a true condition."""

    def __init__(self, condition: str | None) -> None:
        self.cond = condition
        """The condition. The name is bdb's, because commands of debuggers assign this attribute of a breakpoint."""
        self.counted = 0
        """Number of times that the program reached this place with a true condition."""
        self.problem = ""
        """A warning for users about a stop that is placed; empty if there is none."""
        self.was_reported = False
        """Whether an error of the condition was reported in the job's output."""

    @property
    def shown(self) -> str:
        """The name in messages."""
        raise NotImplementedError

    def holds(self, frame: FrameType, rank: Callable[[], int], warn: Callable[[str], None]) -> bool:
        """Return True and count a hit if the condition is true in this frame, or raises."""
        if self.cond is not None and not holds(self.cond, frame, rank, partial(self.note_raised, warn)):
            return False
        self.counted += 1
        return True

    def note_raised(self, warn: Callable[[str], None], error: BaseException) -> None:
        """Record in ``problem`` that the condition raised this error, and warn about the first such error."""
        raised = raised_text(error)
        self.problem = f"{raised}; the rank stops anyway"[:MAX_CONDITION]
        if not self.was_reported:
            self.was_reported = True
            warn(f"{self.shown}: {raised}; stopping anyway")


def check_stop(
    frame: FrameType,
    is_due: Callable[[bool], bool],
    stop: Callable[[FrameType], object],
    failed: Callable[[Exception], object],
) -> None:
    """Stop the calling thread at ``frame`` if ``is_due(is_traced)`` returns True.

    Tracing is switched off while ``is_due`` runs. Errors of ``is_due`` go to ``failed``. Only exceptions that ``stop``
    raises propagate.
    """
    tracer = sys.gettrace()
    try:
        if tracer is not None:
            # If tracing stayed on, a user's step would end in this module or in the code of the condition.
            sys.settrace(None)
        # Conditions and log texts need free stack, too. If the stack ended in one of them, Python would raise a
        # RecursionError, and users would take the error for a fault of their condition or log text.
        if reports_no_room(failed) or not is_due(tracer is not None):
            return
    except Exception as error:
        # A fault of the debugger must not end a training job.
        failed(error)
        return
    finally:
        if tracer is not None:
            sys.settrace(tracer)
    stop(frame)


def mechanism(reached: Reached, find: Find | None = None) -> Monitored | AtImport:
    """Return the mechanism that calls ``reached`` at the stops on this Python version."""
    if sys.version_info >= (3, 12):
        from dbg_agent.breakpoints.monitored import Monitored

        return Monitored(reached, find)
    from dbg_agent.breakpoints.at_import import AtImport

    return AtImport(reached, find)
