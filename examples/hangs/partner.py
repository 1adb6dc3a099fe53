"""Hang: in a pipeline of four stages, rank 1 does not send the third micro-batch to rank 2.

torchrun --standalone --nproc-per-node 4 -m dbg_agent examples/hangs/partner.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist

MICRO_BATCHES = 4


def is_worth_sending(activations: torch.Tensor) -> bool:
    """Return False for a micro-batch with only padding; the receiver does not know this rule."""
    return dist.get_rank() != 1 or bool(activations[0] != 2)


def forward(micro_batch: int) -> None:
    """Receive activations from the previous stage, and send them to the next stage."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    activations = torch.full((1000,), float(micro_batch))
    if rank > 0:
        dist.recv(activations, src=rank - 1)
    if rank < last and is_worth_sending(activations):
        dist.send(activations, dst=rank + 1)


def main() -> None:
    """Send the micro-batches of one step through the pipeline, and wait for all stages."""
    dist.init_process_group("gloo")
    for micro_batch in range(MICRO_BATCHES):
        print(f"rank {dist.get_rank()}: micro-batch {micro_batch}", flush=True)
        forward(micro_batch)
    dist.barrier()


if __name__ == "__main__":
    main()
