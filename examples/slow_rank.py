"""A training loop with one rank that reads its data slowly, so all others wait for it: docs/slow.md.

dbg-attach run -- torchrun --nproc-per-node 4 examples/slow_rank.py
"""

import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def read_shard(rank: int, step: int) -> torch.Tensor:
    """Return one batch; rank 2 is slow in four of five steps, as with a full disk."""
    if rank == 2 and step % 5:
        time.sleep(0.3)
    return torch.rand(64, 512)


def main() -> None:
    """Train until the job is killed."""
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Linear(512, 8)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1_000_000):
        loss = model(read_shard(dist.get_rank(), step)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
