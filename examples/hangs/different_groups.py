"""Hang: rank 3 calls all_reduce for two groups in a different order than the other ranks.

torchrun --standalone --nproc-per-node 4 -m dbg_agent examples/hangs/different_groups.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist


def train_step(step: int, gradients: dist.ProcessGroup, metrics: dist.ProcessGroup) -> None:
    """Add gradients, and then metrics; in step 3 rank 3 adds its metrics first."""
    groups = [gradients, metrics]
    if dist.get_rank() == 3 and step == 3:
        groups.reverse()
    for group in groups:
        dist.all_reduce(torch.ones(1000), group=group)


def main() -> None:
    """Train until the ranks hang."""
    dist.init_process_group("gloo")
    gradients = dist.new_group(group_desc="gradients")
    metrics = dist.new_group(group_desc="metrics")
    for step in range(10):
        print(f"rank {dist.get_rank()}: step {step}", flush=True)
        train_step(step, gradients, metrics)


if __name__ == "__main__":
    main()
