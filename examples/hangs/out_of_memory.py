r"""End: rank 1 allocates more and more memory until the kernel kills it.

systemd-run --user --scope -p MemoryMax=2G -p MemorySwapMax=0 \
    torchrun --standalone --nproc-per-node 4 -m dbg_agent examples/hangs/out_of_memory.py

Without a limit the memory of the whole machine is used up.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

MIB = 1 << 20

losses: list[torch.Tensor] = []


def train_step() -> None:
    """Add the gradients of all ranks. Rank 1 keeps each loss, and with it the graph of that step, 64 MiB."""
    gradients = torch.ones(1000)
    dist.all_reduce(gradients)
    if dist.get_rank() == 1:
        losses.append(torch.ones(16 * MIB))


def main() -> None:
    """Train until rank 1 is killed."""
    dist.init_process_group("gloo")
    for step in range(1000):
        if step % 10 == 0:
            print(f"rank {dist.get_rank()}: step {step}", flush=True)
        train_step()


if __name__ == "__main__":
    main()
