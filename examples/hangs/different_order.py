"""Hang: rank 0 calls barrier where the other ranks call all_reduce.

torchrun --standalone --nproc-per-node 4 -m dbg_agent examples/hangs/different_order.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist


def save_checkpoint() -> None:
    """Save the model. The barrier is inside ``if rank == 0``, so only rank 0 reaches it."""
    if dist.get_rank() == 0:
        print("rank 0: saves a checkpoint", flush=True)
        dist.barrier()


def train_step() -> None:
    """Add the gradients of all ranks."""
    gradients = torch.ones(1000)
    dist.all_reduce(gradients)


def main() -> None:
    """Train, and save a checkpoint after step 2."""
    dist.init_process_group("gloo")
    for step in range(10):
        print(f"rank {dist.get_rank()}: step {step}", flush=True)
        train_step()
        if step == 2:
            save_checkpoint()


if __name__ == "__main__":
    main()
