"""Blocks of tensors and arrays, and figures of their elements; for torch and numpy, without an import of either."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

BLOCK_BYTES = 8 << 20
"""Bytes that are looked at between two looks at the clock: about 6 ms of hashing."""

SAMPLE_ABOVE = 1_000_000
"""Elements that figures are made of: a hundredth of a second on one core. Of more elements every k-th is taken."""

SHOWN_ELEMENTS = 8
"""The largest number of elements with which a tensor or an array is shown with its values."""


@dataclass(slots=True)
class Figures:
    """Sums over elements: the range and mean of the finite elements, and the counts of NaN and infinite elements."""

    low: float = math.inf
    high: float = -math.inf
    total: float = 0.0
    finite: int = 0
    nan: int = 0
    inf: int = 0

    def add_finite(self, low: float, high: float, total: float, count: int) -> None:
        """Add ``count`` finite elements by their range and sum."""
        self.low, self.high = min(self.low, low), max(self.high, high)
        self.total += total
        self.finite += count

    def sentence(self, step: int) -> str:
        """Return the figures as text, which says if only every ``step``-th element was looked at."""
        told = f"nan {self.nan} inf {self.inf}"
        if self.finite:
            told = f"min {self.low:.6g} max {self.high:.6g} mean {self.total / self.finite:.6g} {told}"
        return told if step == 1 else f"{told} (sampled 1 of {step})"


def sample_step(size: int) -> int:
    """Return the step with which elements are sampled for figures."""
    return max(1, math.ceil(size / SAMPLE_ABOVE))


def blocks(array: Any, most: int) -> Iterator[Any]:
    """Split an array or a tensor into views of at most ``most`` elements, in the order of its elements.

    Equal arrays give the same elements in the same order, even if their elements lie in memory in another order.
    """
    shape = tuple(array.shape)
    if math.prod(shape) <= most:
        yield array
        return
    row = math.prod(shape[1:])
    if row > most:
        for index in range(shape[0]):
            yield from blocks(array[index], most)
        return
    step = most // row
    for start in range(0, shape[0], step):
        yield array[start : start + step]


def shape_text(shape: Any) -> str:
    """Return a shape as text: ``3x4``, or ``scalar`` if it has no axis."""
    return "x".join(map(str, shape)) or "scalar"
