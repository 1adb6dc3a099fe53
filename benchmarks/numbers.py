"""Cost of a watch of numbers for a training step on the CPU."""

from __future__ import annotations

import json
import os
import statistics
from collections import defaultdict

from benchmarks.bench import PATIENCE, Bench, Row
from benchmarks.figures import Figure
from benchmarks.prompt import needs_torch
from dbg_agent.numbers.replicas import STATE_EVERY
from dbg_wire.records.numbers import NumbersQuestion
from dbg_wire.records.record import encode_record

NOTHING = "nothing"
"""Name of the baseline in the figures."""

NAN = {"nan": NumbersQuestion(nan=True)}
NAN_ROUNDS, NAN_STEPS, LENGTH = 35, 1, 128

EVERY = 10
DIFFERENT = {
    "different": NumbersQuestion(different=True),
    "different, each tenth step": NumbersQuestion(different=True, every=EVERY),
}
DIFFERENT_ROUNDS, DIFFERENT_STEPS, SHORT_LENGTH = 8, STATE_EVERY * EVERY, 2
"""Such a watch costs the same for a batch of any size. A short batch has less noise: 1 % of a whole step is 8 % of a
short one. A round has all kinds of steps: compared with the optimizer's state, compared without it, not compared."""

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "1000000000", "MALLOC_TRIM_THRESHOLD_": "4000000000"}
"""Variables of glibc for short steps. Without them it returns gradients to the kernel, which doubles a short step."""

Rounds = dict[str, list[list[float]]]
"""For each watch the steps of each round, in seconds."""


def numbers(bench: Bench) -> list[Figure]:
    """Measure the steps with each watch, and its cost in percent of a whole step without a watch."""
    needs_torch()
    whole = _measured(bench, NAN, NAN_ROUNDS, NAN_STEPS, LENGTH)
    short = _measured(bench, DIFFERENT, DIFFERENT_ROUNDS, DIFFERENT_STEPS, SHORT_LENGTH, **KEEP_MEMORY)
    added = []
    for watches, found in ((NAN, whole), (DIFFERENT, short)):
        for name, question in watches.items():
            seconds = _shortest(found[name], question.every) - _shortest(found[NOTHING])
            added.append(Figure(f"the watch adds: {name}", "%", (100 * seconds / _shortest(whole[NOTHING]),)))
    return [*_steps("step", whole), *_steps("short step", short), *added]


def _measured(bench: Bench, watches: dict[str, NumbersQuestion], *sizes: int, **variables: str) -> Rounds:
    words = [f"{NOTHING}=", *(f"{name}={encode_record(watch)}" for name, watch in watches.items())]
    job = bench.module("benchmarks.numbers_loop", *sizes, *words, env={**os.environ, **variables})
    job.wait(PATIENCE)
    found: Rounds = json.loads(job.text().splitlines()[-1])
    return found


def _steps(kind: str, found: Rounds) -> list[Figure]:
    return [
        Figure(
            f"{kind}, watched: {name}",
            "ms",
            tuple(1000 * statistics.mean(steps) for steps in rounds),
            None if name == NOTHING else f"{kind}, watched: {NOTHING}",
        )
        for name, rounds in found.items()
    ]


def _shortest(rounds: list[list[float]], every: int = 1) -> float:
    """Return the mean of all steps if each one takes as long as the shortest one of its kind.

    Other processes of the machine disturb single steps by more than the limits; they never make a step shorter.
    """
    kinds: defaultdict[tuple[bool, bool], list[float]] = defaultdict(list)
    for steps in rounds:
        for number, seconds in enumerate(steps, 1):
            kinds[number % every == 0, number % (STATE_EVERY * every) == 0].append(seconds)
    return sum(min(one) * len(one) for one in kinds.values()) / sum(map(len, kinds.values()))


TITLE = (
    "processor time of a step of a GPT with 10 million parameters on the CPU; `nan` may add 5 %, `different` 10 %, and "
    "`different` at each tenth step 1 %"
)
ROWS = (Row("numbers", TITLE, numbers),)
