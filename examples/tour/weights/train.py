"""A job with a NaN weight in one rank, and a breakpoint in each rank after the first step."""

from __future__ import annotations

import os

import numpy

import dbg_agent

RANK = int(os.environ["RANK"])


def main() -> None:
    """Create the same weights in each rank, and stop; the weights of rank 2 have a defect."""
    weights = numpy.random.default_rng(0).normal(size=(1000, 1000)).astype(numpy.float32)
    if RANK == 2:
        weights[17, 5] = numpy.nan
    dbg_agent.set_trace()
    print(f"rank {RANK}: {weights.sum():.3f}", flush=True)


if __name__ == "__main__":
    dbg_agent.install(mesh={"dp": 2, "tp": 2})
    main()
