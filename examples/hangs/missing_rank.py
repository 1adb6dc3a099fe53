"""Hang: rank 2 waits for data that never comes, and the other ranks wait for rank 2 in all_reduce.

torchrun --standalone --nproc-per-node 4 -m dbg_agent examples/hangs/missing_rank.py
"""

from __future__ import annotations

import socket

import torch
import torch.distributed as dist

SHARD_BYTES = 1024


def wait_for_shard(server: socket.socket) -> bytes:
    """Return the next shard of a data server; this server accepts the connection and never answers."""
    with socket.create_connection(server.getsockname()) as connection:
        connection.sendall(b"GET shard-3\n")
        return connection.recv(SHARD_BYTES)


def next_batch(step: int) -> torch.Tensor:
    """Return the batch of a step; rank 2 reads a shard in step 3."""
    if dist.get_rank() == 2 and step == 3:
        with socket.create_server(("127.0.0.1", 0)) as server:
            wait_for_shard(server)
    return torch.full((1000,), float(step))


def train_step(step: int) -> None:
    """Add the gradients of all ranks."""
    gradients = next_batch(step)
    dist.all_reduce(gradients)


def main() -> None:
    """Train until the ranks hang."""
    dist.init_process_group("gloo")
    for step in range(10):
        print(f"rank {dist.get_rank()}: step {step}", flush=True)
        train_step(step)


if __name__ == "__main__":
    main()
