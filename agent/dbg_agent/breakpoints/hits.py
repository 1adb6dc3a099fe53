"""The comparison with a number of hits that a user types for a breakpoint, such as ``>= 10``; pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

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
