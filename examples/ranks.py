"""One rank of a small training job without torch: a straight line fitted to noisy points by gradient descent.

Start it with any launcher that sets RANK and WORLD_SIZE: examples/demo.py, torchrun, or a shell. Each rank has its own
shard of the data (shards.py). The loss of one rank is NaN; stop there and find out why.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from shards import load_shard

from dbg_agent import set_trace

STEPS = 40
STOP_AT_STEP = 3
BATCH_SIZE = 8
LEARNING_RATE = 0.05


@dataclass
class Line:
    """The model: y = slope * x + offset."""

    slope: float = 0.0
    offset: float = 0.0

    def predict(self, x: float) -> float:
        """Return y for x."""
        return self.slope * x + self.offset


def train_one_step(model: Line, batch: list[tuple[float, float]]) -> float:
    """Move the model against the gradient of the mean squared error, and return that error."""
    errors = [model.predict(x) - y for x, y in batch]
    loss = sum(error**2 for error in errors) / len(batch)
    model.slope -= LEARNING_RATE * sum(2 * error * x for error, (x, _) in zip(errors, batch, strict=True)) / len(batch)
    model.offset -= LEARNING_RATE * sum(2 * error for error in errors) / len(batch)
    return loss


def main() -> None:
    """Train, and stop once at a breakpoint."""
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    shard = load_shard(rank)
    model = Line()
    losses: list[float] = []
    for step in range(STEPS):
        first = step * BATCH_SIZE % len(shard)
        batch = shard[first : first + BATCH_SIZE]
        losses.append(train_one_step(model, batch))
        if step == STOP_AT_STEP:
            set_trace()
    found = f"y = {model.slope:.2f} x + {model.offset:.2f}"
    print(f"rank {rank} of {world_size}: loss {losses[0]:.3f} -> {losses[-1]:.3f}, {found}", flush=True)


if __name__ == "__main__":
    main()
