"""Hang like missing_rank.py, and leave dumps of the flight recorders in dumps/, as torch's watchdog does with NCCL.

torchrun --standalone --nproc-per-node 4 -m dbg_agent examples/hangs/leaves_dumps.py
"""

from __future__ import annotations

import threading
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as native

FOLDER = Path("dumps")
SECONDS_UNTIL_DUMP = 3.0


def wait_for_shard() -> None:
    """Wait for data that never comes."""
    threading.Event().wait()


def train_step(step: int) -> None:
    """Add the gradients of all ranks; before that, rank 2 reads a shard in step 3."""
    if dist.get_rank() == 2 and step == 3:
        wait_for_shard()
    dist.all_reduce(torch.full((1000,), float(step)))


def write_dump() -> None:
    """Write a dump of this rank's flight recorder, with stacks. gloo has no watchdog that would do it."""
    dump: bytes = vars(native)["_dump_fr_trace"](True, True, False)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"nccl_trace_rank_{dist.get_rank()}").write_bytes(dump)
    print(f"rank {dist.get_rank()}: dumped", flush=True)


def main() -> None:
    """Train until the ranks hang."""
    dist.init_process_group("gloo")
    threading.Timer(SECONDS_UNTIL_DUMP, write_dump).start()
    for step in range(10):
        train_step(step)


if __name__ == "__main__":
    main()
