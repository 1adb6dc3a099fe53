"""Data of ranks.py, and the answer to the demo's riddle: noisy points of a straight line, one shard per rank."""

from __future__ import annotations

import random

RANK_WITH_A_DEFECT = 2


def load_shard(rank: int) -> list[tuple[float, float]]:
    """Return this rank's points of the line y = 2 x + 1, with noise."""
    generator = random.Random(rank)  # noqa: S311 - data, not a secret
    points = [(x, 2 * x + 1 + generator.gauss(0, 0.1)) for x in (generator.uniform(-1, 1) for _ in range(64))]
    if rank == RANK_WITH_A_DEFECT:
        points[27] = (points[27][0], float("nan"))
    return points
