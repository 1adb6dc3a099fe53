"""The conditions of a stop: an expression at its frame, and a comparison of its hits as a user types it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from dbg_agent.stop.frame_locals import read_locals
from dbg_wire.errors import printable

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
        remainder = int(rest or 0)
        if remainder >= number:
            raise NoHits(f"`{text}` is never true: a remainder of {number} is below {number}")
        return lambda count: count % number == remainder
    if rest is not None:
        raise _no_hits(text)
    compare = _COMPARISONS[sign]
    if not any(compare(count, number) for count in (1, max(1, number), number + 1)):
        raise NoHits(f"`{text}` is never true: hits are counted from 1")
    return lambda count: compare(count, number)


def _no_hits(text: str) -> NoHits:
    return NoHits(f"`{text}` compares no number of hits; `== 3`, `>= 10` and `% 100 == 0` do")


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
    return f"the condition raised {type(error).__name__}: {printable(str(error))}"
