"""Command lines of real launchers, such that they run here: as root, on few cores, on loopback."""

from __future__ import annotations

import sys


def mpirun(n: int, *command: str) -> list[str]:
    """Return Open MPI's command line for ``n`` ranks of ``command``; it ends them all when it gets SIGTERM."""
    loopback = ["--mca", "oob_tcp_if_include", "lo", "--mca", "btl_tcp_if_include", "lo"]
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", *loopback, "-np", str(n), *command]


def torchrun(n: int, *arguments: str) -> list[str]:
    """Return torchrun's command line for ``n`` ranks on this host with a rendezvous of their own."""
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n), *arguments]
