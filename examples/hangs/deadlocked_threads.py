"""Hang: two threads of rank 1 acquire two locks in different order; the other ranks wait for rank 1 in all_reduce.

torchrun --standalone --nproc-per-node 4 -m dbg_agent examples/hangs/deadlocked_threads.py
"""

from __future__ import annotations

import threading

import torch
import torch.distributed as dist

cache_lock = threading.Lock()
log_lock = threading.Lock()
holds_log = threading.Event()
holds_cache = threading.Event()


def prefetch() -> None:
    """Log, and then put a batch into the cache (second thread)."""
    with log_lock:
        holds_log.set()
        holds_cache.wait()
        with cache_lock:
            print("a batch is in the cache", flush=True)


def next_batch() -> torch.Tensor:
    """Take a batch out of the cache, and then log."""
    with cache_lock:
        holds_cache.set()
        holds_log.wait()
        with log_lock:
            print("a batch is out of the cache", flush=True)
    return torch.ones(1000)


def train_step(step: int) -> None:
    """Add the gradients of all ranks; rank 1 prefetches in step 3."""
    if dist.get_rank() == 1 and step == 3:
        threading.Thread(target=prefetch, name="prefetch", daemon=True).start()
        next_batch()
    gradients = torch.ones(1000)
    dist.all_reduce(gradients)


def main() -> None:
    """Train until the ranks hang."""
    dist.init_process_group("gloo")
    for step in range(10):
        print(f"rank {dist.get_rank()}: step {step}", flush=True)
        train_step(step)


if __name__ == "__main__":
    main()
