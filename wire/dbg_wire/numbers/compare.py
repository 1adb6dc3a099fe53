"""Comparison of two runs: the first step and tensor whose numbers differ by more than rounding. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import takewhile
from operator import attrgetter

from dbg_wire.numbers.rows import Numbers, StepNumbers, WatchedTensor
from dbg_wire.records.numbers import Origin, Suspect, WrongNumber
from dbg_wire.records.record import Count, Record

TOLERANCES: Mapping[str, float] = {"float64": 1e-9, "float32": 1e-5, "float16": 1e-2, "bfloat16": 1e-2}
"""Largest relative difference by dtype that is taken for rounding: the rounding of one element, and room for sums."""

COARSE = 0.1
"""Tolerance of all other dtypes, which have 8 bits or fewer."""

SMALL_GRADIENT = 1e-2
"""Part of the largest gradient of a step. The norm of a smaller gradient is compared relative to this part, because
rounding errors are all that some gradients consist of, such as the one of a bias before a normalization."""

_Key = tuple[Suspect, str, int, tuple[int, ...]]


class TwoRuns(Record):
    """Result of a comparison: the first ``difference``, or None, and the ``ranks`` out of ``compared`` that have it.

    ``numbers`` counts the compared tensors from the first to the last of ``steps``. ``largest`` is the largest relative
    difference in earlier steps. The last fields are the tensors that only one of the runs has. Tensors of different
    shapes are different tensors.
    """

    difference: WrongNumber | None
    ranks: tuple[int, ...]
    compared: tuple[int, ...]
    numbers: Count
    steps: tuple[int, ...]
    largest: float
    first_only: tuple[str, ...]
    second_only: tuple[str, ...]


class Comparison:
    """Comparison of one rank in two runs, by digests if it is ``exact``. It reads the steps of the first run lazily."""

    def __init__(self, first: Iterator[StepNumbers], *, exact: bool) -> None:
        self._first = first
        self._next: StepNumbers | None = None
        self._exact = exact
        self.numbers = 0
        self.seen: tuple[set[_Key], set[_Key]] = set(), set()
        """The tensors of the first run, and those of the second run."""
        self.largest: dict[int, float] = {}
        """The largest relative difference of each step."""

    def differing(self, second: StepNumbers) -> tuple[int, WrongNumber] | None:
        """Return the first difference in the next step of the second run, and its position. Raises NotNumbers."""
        while self._next is None or self._next.step < second.step:
            self._next = next(self._first, None)
            if self._next is None:
                return None
        if self._next.step > second.step:
            return None
        first, self._next = _by_key(self._next), None
        self.seen[0].update(first)
        gradients = [row.norm for tensor, row in second.tensors.items() if tensor.suspect is Suspect.GRADIENT]
        small = SMALL_GRADIENT * max(gradients, default=0.0)
        found: tuple[int, WrongNumber] | None = None
        # In mixed precision, outputs and gradients of a fine dtype have the rounding errors of coarse outputs before.
        coarsest = 0.0
        for position, (key, (tensor, after)) in enumerate(_by_key(second).items()):
            self.seen[1].add(key)
            if key not in first:
                continue
            other, before = first[key]
            self.numbers += 1
            relative = _relative(before, after, small if tensor.suspect is Suspect.GRADIENT else 0.0)
            self.largest[second.step] = max(relative, self.largest.get(second.step, 0.0))
            own = max(TOLERANCES.get(one.dtype, COARSE) for one in (tensor, other))
            coarsest = max(coarsest, own)
            tolerance = own if tensor.suspect is Suspect.PARAMETER else coarsest
            if found is None and (before.digest != after.digest if self._exact else relative > tolerance):
                of_tensor = partial(WrongNumber, suspect=tensor.suspect, name=tensor.name, call=tensor.call)
                norms = before.norm, after.norm
                found = position, of_tensor(step=second.step, origin=Origin.OTHER_RUN, norms=norms, relative=relative)
        return found


def compare_runs(
    first: Mapping[int, Iterator[StepNumbers]], second: Mapping[int, Iterator[StepNumbers]], *, exact: bool
) -> TwoRuns:
    """Compare the steps of the ranks that both runs have. Raises NotNumbers if a file is invalid."""
    compared = {rank: Comparison(first[rank], exact=exact) for rank in sorted(first.keys() & second.keys())}
    found: list[tuple[int, int, int, WrongNumber]] = []
    for rank, comparison in compared.items():
        for step in takewhile(lambda step: not found or step.step <= min(found)[0], second[rank]):
            if (at := comparison.differing(step)) is not None:
                found.append((step.step, at[0], rank, at[1]))
                break
    earliest, _, _, difference = min(found, default=(math.inf, 0, 0, None))
    steps = sorted({step for one in compared.values() for step in one.largest})
    same = attrgetter("step", "suspect", "name", "call")
    return TwoRuns(
        difference=difference,
        ranks=tuple(rank for *_, rank, one in found if difference is not None and same(one) == same(difference)),
        compared=tuple(compared),
        numbers=sum(one.numbers for one in compared.values()),
        steps=tuple(steps[:: max(1, len(steps) - 1)]),
        largest=max(
            (one.largest.get(step, 0.0) for one in compared.values() for step in steps if step < earliest), default=0.0
        ),
        first_only=_names(one.seen[0] - one.seen[1] for one in compared.values()),
        second_only=_names(one.seen[1] - one.seen[0] for one in compared.values()),
    )


def _by_key(numbers: StepNumbers) -> dict[_Key, tuple[WatchedTensor, Numbers]]:
    return {(one.suspect, one.name, one.call, one.shape): (one, row) for one, row in numbers.tensors.items()}


def _names(keys: Iterable[set[_Key]]) -> tuple[str, ...]:
    return tuple(sorted({name for of_rank in keys for _, name, _, _ in of_rank}))


def _relative(first: Numbers, second: Numbers, least: float) -> float:
    """Return the largest relative difference of norm and extremes; the norms count as ``least`` at least."""
    if first.wrong or second.wrong:
        return 0.0 if first.wrong == second.wrong else math.inf
    norm = max(first.norm, second.norm, least)
    extreme = max(*map(abs, (first.low, first.high, second.low, second.high)), least)
    pairs = (first.norm, second.norm, norm), (first.low, second.low, extreme), (first.high, second.high, extreme)
    quotients = [0.0 if one == other else abs(one - other) / scale for one, other, scale in pairs]
    # A norm may overflow, though all elements are finite; then its quotient is NaN.
    return max(quotient if quotient < math.inf else math.inf for quotient in quotients)
