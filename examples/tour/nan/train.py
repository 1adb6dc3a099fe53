"""A job with a NaN loss in one rank, and a breakpoint in each rank after the first step."""

from __future__ import annotations

import os

import dbg_agent

RANK = int(os.environ["RANK"])


def load_batch() -> list[float]:
    """Return this rank's batch; one of the points of rank 2 has a defect."""
    batch = [0.5, 1.5, 2.5, 3.5]
    if RANK == 2:
        batch[1] = float("nan")
    return batch


def train_step(weight: float, batch: list[float]) -> float:
    """Return the mean squared error of y = weight * x against y = 3 * x."""
    return sum((weight * x - 3 * x) ** 2 for x in batch) / len(batch)


def main() -> None:
    """Train, and stop once at a breakpoint."""
    weight = 1.0
    batch = load_batch()
    loss = train_step(weight, batch)
    dbg_agent.set_trace()
    weight += 0.1
    loss = train_step(weight, batch)
    print(f"rank {RANK}: loss {loss:.3f}", flush=True)


if __name__ == "__main__":
    dbg_agent.install(mesh={"dp": 2, "tp": 2})
    main()
