"""The steps of a training loop, by the pattern that its collectives repeat. Pure."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from typing import NamedTuple

REPEATS = 3
"""Times that a pattern is seen at least."""

ALIKE = 0.95
"""The part of the collectives that follow the pattern: an evaluation now and then is no other loop."""

PAUSE = 0.3
"""The part of a long pause between collectives from which on a pause is a long one."""

LONG = 0.9
"""The place of that long pause among all pauses: the few longest ones are checkpoints."""


class Step(NamedTuple):
    """How many collectives of a group a step has, and how many seconds it takes."""

    collectives: int
    seconds: float


def step_of(calls: Sequence[str], times: Sequence[float]) -> Step | None:
    """Return the step of a loop by the calls of a group and their times; None if they repeat in no pattern.

    Equal calls are told apart by the pauses before them: a step's first one comes after a computation.
    """
    if len(calls) <= REPEATS:
        return None
    pauses = [after - before for before, after in itertools.pairwise(times)]
    long = PAUSE * sorted(pauses)[min(len(pauses) - 1, int(LONG * len(pauses)))]
    tokens = [(call, pause >= long) for call, pause in zip(calls[1:], pauses, strict=True)]
    for period in range(1, len(tokens) // REPEATS + 1):
        same = sum(one == other for one, other in zip(tokens, tokens[period:], strict=False))
        if same >= ALIKE * (len(tokens) - period):
            seconds = [after - before for before, after in zip(times, times[period:], strict=False)]
            return Step(period, statistics.median(seconds))
    return None
