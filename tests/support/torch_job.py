"""A job of torch on this host whose ranks are forks of one process that has imported torch: each would import for 3 s.

The ranks have the variables and the store of torchrun, which tests of launchers start as it is.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
import uuid
from pathlib import Path
from typing import NoReturn

import torch.distributed

PR_SET_PDEATHSIG = 1
"""The request to the kernel for a signal at the end of this process's parent, as in ``linux/prctl.h``."""


def main() -> int:
    """Run ``torch-job N SCRIPT ARGS…`` as N ranks of ``python -m dbg_agent``; return 1 if one has failed."""
    world, *program = sys.argv[1:]
    # With the usual one thread for each core, ranks on few cores would only wait for each other.
    torch.set_num_threads(1)
    store, port = _serve_store()
    run = uuid.uuid4().hex
    ranks = [_fork(rank, int(world), port, run, program) for rank in range(int(world))]
    signal.signal(signal.SIGTERM, lambda *_: _end(ranks))
    status = 0
    while ranks:
        pid, ended = os.wait()
        ranks.remove(pid)
        if ended and not status:
            status = 1
            _end(ranks)
    os.kill(store, signal.SIGKILL)
    os.waitpid(store, 0)
    return status


def _serve_store() -> tuple[int, int]:
    """Return the number of a process that serves torch's store, and its port.

    Were the store in this process, each rank would abort at its end: it would wait for a thread that no fork has.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        os.write(writing, f"{store.port}\n".encode())
        while True:
            signal.pause()
    os.close(writing)
    with os.fdopen(reading) as answer:
        return pid, int(answer.readline())


def _end(ranks: list[int]) -> None:
    for pid in ranks:
        os.kill(pid, signal.SIGTERM)


def _fork(rank: int, world: int, port: int, run: str, program: list[str]) -> int:
    pid = os.fork()
    if pid == 0:
        _be_rank(rank, world, port, run, program)
    return pid


def _be_rank(rank: int, world: int, port: int, run: str, program: list[str]) -> NoReturn:
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(world),
        LOCAL_WORLD_SIZE=str(world),
        GROUP_RANK="0",
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        TORCHELASTIC_RUN_ID=run,
        TORCHELASTIC_RESTART_COUNT="0",
        TORCHELASTIC_USE_AGENT_STORE="True",
    )
    # As in `python -m dbg_agent`, which puts the present directory on the path.
    sys.path.insert(0, str(Path.cwd()))
    sys.argv[1:] = program
    runpy.run_module("dbg_agent", run_name="__main__", alter_sys=True)
    sys.exit()
