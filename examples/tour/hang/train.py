"""A job that hangs: one rank waits for data that never comes, and the others wait for that rank.

``all_reduce`` replaces the function of torch: it returns when every rank has called it. The job does not need torch,
but all ranks must run on one host.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections import defaultdict

RANK = int(os.environ["RANK"])
WORLD_SIZE = int(os.environ["WORLD_SIZE"])
TOUR = os.environ.get("TOUR", "tour")

inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
inbox.bind(f"\0{TOUR}-{RANK}")
arrived: defaultdict[int, list[float]] = defaultdict(list)


def all_reduce(value: float, step: int) -> float:
    """Return the sum of the values of all ranks, once all of them have called this."""
    for rank in range(WORLD_SIZE):
        inbox.sendto(f"{step} {value}".encode(), f"\0{TOUR}-{rank}")
    while len(arrived[step]) < WORLD_SIZE:
        other_step, other_value = inbox.recv(100).decode().split()
        arrived[int(other_step)].append(float(other_value))
    return sum(arrived.pop(step))


def wait_for_shard(step: int) -> float:
    """Return data like a data loader; the loader of rank 2 has no data for step 3."""
    if RANK == 2 and step == 3:
        time.sleep(3600)
    return float(step)


def next_batch(step: int) -> float:
    """Return the batch of a step."""
    return wait_for_shard(step)


def train_step(step: int) -> float:
    """Do one step, and return the loss over all ranks."""
    batch = next_batch(step)
    return all_reduce(batch / 2, step)


def wait_for_others() -> None:
    """Wait until the inboxes of all ranks exist."""
    for rank in range(WORLD_SIZE):
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                inbox.sendto(b"-1 0", f"\0{TOUR}-{rank}")
                break
            time.sleep(0.05)


def main() -> None:
    """Train."""
    wait_for_others()
    for step in range(1000):
        print(f"rank {RANK}: step {step}", flush=True)
        train_step(step)


if __name__ == "__main__":
    main()
