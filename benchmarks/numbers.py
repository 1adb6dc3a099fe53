"""Cost of a watch of numbers for a training step on the CPU."""

from __future__ import annotations

import json

from benchmarks.bench import PATIENCE, Bench, Row
from benchmarks.figures import Figure
from benchmarks.prompt import needs_torch
from dbg_wire.records.numbers import NumbersQuestion
from dbg_wire.records.record import encode_record

ROUNDS = 5

WATCHES = {"nothing": None, "nan": NumbersQuestion(nan=True)}
"""The watches by the name that the figures show; the first one is the baseline."""


def numbers(bench: Bench) -> list[Figure]:
    """Measure the shortest step of each watch in each round, and the cost in percent."""
    needs_torch()
    words = [f"{name}={encode_record(watch) if watch else ''}" for name, watch in WATCHES.items()]
    job = bench.module("benchmarks.numbers_loop", ROUNDS, *words)
    job.wait(PATIENCE)
    steps: dict[str, list[float]] = json.loads(job.text().splitlines()[-1])
    baseline, *watched = WATCHES
    against = f"step, watched: {baseline}"
    figures = [
        Figure(
            f"step, watched: {name}", "ms", tuple(1000 * one for one in found), None if name == baseline else against
        )
        for name, found in steps.items()
    ]
    # Other processes of the machine disturb single rounds by more than the limit; they never make a step shorter.
    shortest = {name: min(found) for name, found in steps.items()}
    for name in watched:
        figures.append(Figure(f"the watch adds: {name}", "%", (100 * (shortest[name] / shortest[baseline] - 1),)))
    return figures


TITLE = "processor time of a step of a GPT with 10 million parameters on the CPU; `nan` may add 5 %"
ROWS = (Row("numbers", TITLE, numbers),)
