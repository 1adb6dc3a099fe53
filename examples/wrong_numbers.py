"""Train a small model in all ranks, with one mistake: ``bad-batch``, ``drift``, or another learning rate.

Start it as in docs/numbers.md, such as: dbg-attach run --stop-at nan -- torchrun --nproc-per-node 2
examples/wrong_numbers.py bad-batch
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

mistake, rate = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.01


class Model(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(8, 32)
        self.mlp = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        self.head = nn.Linear(32, 1)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.head(self.mlp(self.embed(batch)))


dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(Model())
optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
torch.manual_seed(dist.get_rank())

for step in range(1, 31):
    batch = torch.randn(16, 8)
    if step == 12 and dist.get_rank() == 1:
        if mistake == "bad-batch":
            batch[5, 2] = float("nan")
        elif mistake == "drift":
            with torch.no_grad():
                model.module.mlp[2].bias[7] += 0.001
    loss = model(batch).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

print("trained", flush=True)
dist.destroy_process_group()
