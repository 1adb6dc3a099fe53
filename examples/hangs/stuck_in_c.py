"""Hang: rank 3 is in a C function that holds the GIL, so no Python code of that rank can run.

torchrun --standalone --nproc-per-node 4 -m dbg_agent examples/hangs/stuck_in_c.py
"""

from __future__ import annotations

import ctypes

import torch
import torch.distributed as dist

libc = ctypes.PyDLL(None)
"""The C library. Unlike CDLL, PyDLL holds the GIL during a call, as a faulty extension module does."""


def decode(image: int) -> torch.Tensor:
    """Decode an image; the decoder of rank 3 never returns from image 3."""
    if dist.get_rank() == 3 and image == 3:
        libc.sleep(3600)
    return torch.full((1000,), float(image))


def train_step(step: int) -> None:
    """Add the gradients of all ranks."""
    gradients = decode(step)
    dist.all_reduce(gradients)


def main() -> None:
    """Train until the ranks hang."""
    dist.init_process_group("gloo")
    for step in range(10):
        print(f"rank {dist.get_rank()}: step {step}", flush=True)
        train_step(step)


if __name__ == "__main__":
    main()
