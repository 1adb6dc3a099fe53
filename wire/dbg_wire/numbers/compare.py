"""Comparison of two runs: the first step and tensor whose numbers differ by more than rounding. Pure."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any

from dbg_wire.numbers.rows import Numbers, StepNumbers, WatchedTensor
from dbg_wire.records.numbers import Origin, Suspect, WrongNumber
from dbg_wire.records.record import Count, Record, clamp

TOLERANCES: Mapping[str, float] = {"float64": 1e-9, "float32": 1e-5, "float16": 1e-2, "bfloat16": 1e-2}
"""Largest relative difference by dtype that is taken for rounding: the rounding of one element, and room for sums."""

COARSE = 0.1
"""Tolerance of all other dtypes, which have 8 bits or fewer."""

SMALL_GRADIENT = 1e-2
"""Part of the largest gradient of a step. The norm of a smaller gradient is compared relative to this part, because
rounding errors are all that some gradients consist of, such as the one of a bias before a normalization."""

_START, _END = StepNumbers(-1, {}), StepNumbers(sys.maxsize, {})


class TwoRuns(Record):
    """Result of a comparison: the first ``difference``, or None, and the ``ranks`` out of ``compared`` that have it.

    ``tensors`` counts the tensors that both runs have in a step, in all compared ranks. ``unmatched`` counts
    those that only one run has. Tensors of different shapes are different tensors.
    """

    difference: WrongNumber | None
    ranks: tuple[int, ...]
    compared: tuple[int, ...]
    tensors: Count
    unmatched: Count


class Comparison:
    """Comparison of one rank in two runs, by digests if it is ``exact``. It reads the steps of the first run lazily."""

    def __init__(self, first: Iterator[StepNumbers], *, exact: bool) -> None:
        self._first = first
        self._next = _START
        self._exact = exact
        self.matched: set[WatchedTensor] = set()
        self.unmatched: set[WatchedTensor] = set()
        """The tensors that only one run has in a step; it may have others in another step."""

    def differing(self, second: StepNumbers) -> tuple[int, WrongNumber] | None:
        """Return the first difference in the next step of the second run, and its position. Raises NotNumbers."""
        while self._next.step < second.step:
            self._next = next(self._first, _END)
        if self._next.step > second.step:
            return None
        first, self._next = self._next.tensors, _START
        self.matched |= first.keys() & second.tensors.keys()
        self.unmatched |= first.keys() ^ second.tensors.keys()
        gradients = [row.norm for tensor, row in second.tensors.items() if tensor.suspect is Suspect.GRADIENT]
        small = SMALL_GRADIENT * max(gradients, default=0.0)
        # In mixed precision, tensors of a fine dtype have the rounding errors of coarse tensors before.
        tolerance = 0.0
        for position, (tensor, after) in enumerate(second.tensors.items()):
            if (before := first.get(tensor)) is None:
                continue
            tolerance = max(tolerance, *(TOLERANCES.get(one.dtype, COARSE) for one in (before, after)))
            measure = _measure(before, after, tolerance, small if tensor.suspect is Suspect.GRADIENT else 0.0)
            if self._exact:
                measure = "digest" if before.digest != after.digest else ""
            if measure:
                fields: dict[str, Any] = {"suspect": tensor.suspect, "name": tensor.name, "measure": measure}
                fields |= {"before": getattr(before, measure), "after": getattr(after, measure)}
                return position, clamp(WrongNumber, step=second.step, origin=Origin.OTHER_RUN, **fields)
        return None


def compare_runs(
    first: Mapping[int, Iterator[StepNumbers]], second: Mapping[int, Iterator[StepNumbers]], *, exact: bool
) -> TwoRuns:
    """Compare the steps of the ranks that both runs have. Raises NotNumbers if a file is invalid."""
    compared = {rank: Comparison(first[rank], exact=exact) for rank in sorted(first.keys() & second.keys())}
    found: list[tuple[int, int, int, WrongNumber]] = []
    for rank, comparison in compared.items():
        for position, wrong in filter(None, map(comparison.differing, second[rank])):
            found.append((wrong.step, position, rank, wrong))
            break
    *_, difference = min(found, default=(None,))
    place = attrgetter("step", "suspect", "name")
    return TwoRuns(
        difference=difference,
        ranks=tuple(rank for *_, rank, wrong in found if place(wrong) == place(difference)),
        compared=tuple(compared),
        tensors=sum(len(one.matched) for one in compared.values()),
        unmatched=sum(len(one.unmatched - one.matched) for one in compared.values()),
    )


def _measure(first: Numbers, second: Numbers, tolerance: float, least: float) -> str:
    """Return the name of the number that differs, or an empty text. The extremes count as ``least`` at least."""
    if first.nonfinite or second.nonfinite:
        return "nonfinite" if first.nonfinite != second.nonfinite else ""
    scale = max(least, *map(abs, (first.minimum, first.maximum, second.minimum, second.maximum)))
    for name in ("norm", "minimum", "maximum"):
        if not math.isclose(getattr(first, name), getattr(second, name), rel_tol=tolerance, abs_tol=tolerance * scale):
            return name
    return ""
