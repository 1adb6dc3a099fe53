"""Hang: rank 2 of an MPI job waits for another program, and the other ranks wait for rank 2 in Allreduce.

mpirun -np 4 python -m dbg_agent examples/hangs/mpi_missing.py
"""

from __future__ import annotations

import subprocess

from mpi4py import MPI

comm = MPI.COMM_WORLD


def convert_mesh() -> None:
    """Wait for the program that converts the mesh of the next step; it never ends."""
    subprocess.run(["sleep", "3600"], check=True)


def time_step(step: int) -> float:
    """Return the largest residual of all ranks; rank 2 gets a new mesh in step 3."""
    if comm.rank == 2 and step == 3:
        convert_mesh()
    residual: float = comm.allreduce(1.0 / (step + 1), op=MPI.MAX)
    return residual


def main() -> None:
    """Compute until the ranks hang."""
    for step in range(10):
        print(f"rank {comm.rank}: step {step}", flush=True)
        time_step(step)


if __name__ == "__main__":
    main()
