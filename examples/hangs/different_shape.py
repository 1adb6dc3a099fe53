"""Hang: rank 2 calls the same all_reduce as the other ranks, with a larger tensor.

torchrun --standalone --nproc-per-node 4 -m dbg_agent examples/hangs/different_shape.py

With other sizes gloo does not hang: it ends a rank, or silently returns a wrong sum.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

WIDTH = 1024
VOCABULARY = 2048


def vocabulary_size() -> int:
    """Return the number of tokens; rank 2 has a newer tokenizer with more tokens."""
    return VOCABULARY + 1024 if dist.get_rank() == 2 else VOCABULARY


def train_step(embedding: torch.Tensor) -> None:
    """Add the gradients of the embedding over all ranks."""
    gradients = torch.ones_like(embedding)
    dist.all_reduce(gradients)


def main() -> None:
    """Train until the ranks hang, in the first step."""
    dist.init_process_group("gloo")
    embedding = torch.zeros(vocabulary_size(), WIDTH)
    for step in range(10):
        print(f"rank {dist.get_rank()}: step {step}", flush=True)
        train_step(embedding)


if __name__ == "__main__":
    main()
