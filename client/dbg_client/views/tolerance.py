"""Values that differ in their floats alone, and only by little, as their texts show. Pure."""

from __future__ import annotations

import bisect
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

_NUMBER = r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|inf|nan"
_FLOAT = re.compile(rf"(?<![\w.])-?(?:{_NUMBER})(?![\w.])")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_LEFT_OUT = ("…", "...", "not compared")
"""Marks of a text that leaves out a part of the value, so that the whole can't be compared."""

_TOLD_BY_SHAPE = re.compile(r"\b(?:tensor|array) (?:scalar|[0-9x]+) (?![^\[\](){},]*: )")
"""A tensor or array, somewhere in a value, of which no elements are shown."""


@dataclass(frozen=True, slots=True)
class Floats:
    """A text's floats, and what is left of the text without them."""

    rest: str
    floats: tuple[float, ...]

    def is_near(self, other: Floats, tolerance: float) -> bool:
        """Return whether both differ in floats alone, and by no more than ``tolerance``.

        The difference is relative for floats above 1 and absolute below; NaN is equal to NaN. Texts whose floats are
        all the same are not near: the values then differ in something that the texts don't show.
        """
        if self.rest != other.rest or _same(self.floats, other.floats):
            return False
        return all(_near(a, b, tolerance) for a, b in zip(self.floats, other.floats, strict=True))


def read_floats(text: str) -> Floats | None:
    """Return the floats of a value's text, or None if there are none or the text is not the whole value."""
    if any(mark in text for mark in _LEFT_OUT) or _TOLD_BY_SHAPE.search(text):
        return None
    floats = tuple(float(found) for found in _FLOAT.findall(text))
    return Floats(_ADDRESS.sub("0x", _FLOAT.sub("~", text)), floats) if floats else None


def merge_near(texts: Sequence[str], tolerance: float) -> list[int]:
    """Return for each text the index of the first one that it is near to, its own if there is none.

    Every member of a set is near to its first one: sets don't grow along chains of small differences.
    """
    shelves: defaultdict[tuple[str, str], list[_First]] = defaultdict(list)
    heads = []
    for index, text in enumerate(texts):
        floats = read_floats(text)
        if floats is None:
            heads.append(index)
            continue
        one = floats.floats[0]
        # NaN and infinities have no distance to other floats, so they have shelves of their own.
        shelf = shelves[floats.rest, "" if math.isfinite(one) else str(abs(one))]
        head = _head(shelf, floats, tolerance)
        if head is None:
            bisect.insort(shelf, _First(one if math.isfinite(one) else 0.0, index, floats))
        heads.append(index if head is None else head)
    return heads


@dataclass(frozen=True, slots=True, order=True)
class _First:
    """The first member of a set; sorted by its first float, so that few are looked at for each text."""

    value: float
    index: int
    floats: Floats = field(compare=False)


def _head(shelf: Sequence[_First], floats: Floats, tolerance: float) -> int | None:
    one = floats.floats[0]
    nearby = shelf
    if tolerance < 1 and math.isfinite(one):
        # A float that is near to this one may be larger and so allow a larger difference: never more than this.
        reach = tolerance * max(1.0, abs(one)) / (1 - tolerance) * (1 + 1e-9)
        low = bisect.bisect_left(shelf, one - reach, key=lambda first: first.value)
        high = bisect.bisect_right(shelf, one + reach, key=lambda first: first.value)
        nearby = shelf[low:high]
    return min((first.index for first in nearby if floats.is_near(first.floats, tolerance)), default=None)


def _same(some: tuple[float, ...], others: tuple[float, ...]) -> bool:
    return len(some) == len(others) and all(_near(a, b, 0.0) for a, b in zip(some, others, strict=True))


def _near(a: float, b: float, tolerance: float) -> bool:
    if a == b or (math.isnan(a) and math.isnan(b)):
        return True
    if not (math.isfinite(a) and math.isfinite(b)):
        return False
    return abs(a - b) <= tolerance * max(1.0, abs(a), abs(b))
