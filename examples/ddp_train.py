"""Train a small network on the CPU with DistributedDataParallel, and stop every rank at a step of your choice.

    torchrun --standalone --nproc-per-node 4 examples/ddp_train.py --stop-at-step 5

Then, in another terminal: ``dbg-attach list``, and ``dbg-attach 2`` for PuDB in rank 2. Only the import and the call of
``set_trace`` are for debugging.
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from dbg_agent import set_trace


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train a small network with DistributedDataParallel on the CPU.")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--stop-at-step", type=int, metavar="N", help="open the debugger before the N-th update")
    return parser.parse_args()


def make_data() -> TensorDataset:
    """Return points of y = sin(3 x), the same in every rank."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(512, 1, generator=generator) * 2 - 1
    return TensorDataset(x, torch.sin(3 * x))


def make_model() -> DistributedDataParallel:
    """Return a small network whose gradients are averaged over all ranks at each backward pass."""
    torch.manual_seed(0)
    return DistributedDataParallel(nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1)))


def train(options: argparse.Namespace) -> float:
    """Train for some epochs and return the last loss of this rank."""
    data = make_data()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=options.batch_size, sampler=sampler)
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=options.learning_rate)
    step = 0
    last_loss = 0.0
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            if step == options.stop_at_step:
                # Every rank stops here, between its backward pass and its update; try `loss`, `x.shape`, `model`.
                set_trace()
            optimizer.step()
            last_loss = loss.item()
            step += 1
    return last_loss


def main() -> None:
    """Join the other ranks, train, and print the loss."""
    options = parse_arguments()
    dist.init_process_group("gloo")
    loss = train(options)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}: loss {loss:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
