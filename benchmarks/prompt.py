"""From a command to PuDB on the screen: ``dbg-attach run``, and stock ``pudb.remote`` with a listener.

Both run the same job: two ranks of torchrun, a compiled model under DDP, and a stop of rank 0 in its first step. The
stock way is a call behind ``if rank == 0``, and a listener that already waits in a terminal.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from benchmarks.bench import Bench, Row, Unmeasurable, interleaved
from benchmarks.figures import Figure
from benchmarks.pudb import compared
from tests.support.launchers import torchrun
from tests.support.pudb_terminal import DRAWN
from tests.support.sessions import DETACH
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

ROUNDS = 3

LINES, COLUMNS = 30, 100

PATIENCE = seconds(120)

JOB = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
model = torch.compile(DistributedDataParallel(layer), backend="eager")
optimizer = torch.optim.AdamW(model.parameters())
for step in range(5):
    loss = model(torch.randn(4, 16, 32)).square().mean()
    loss.backward()
    pass  # stop
    optimizer.step()
"""

STOP_LINE = 1 + JOB[: JOB.index("    pass  # stop")].count("\n")

STOCK_CALL = (
    "    if dist.get_rank() == 0: __import__('pudb.remote').remote.set_trace("
    f"term_size=({COLUMNS}, {LINES}), host='127.0.0.1', port={{port}}, reverse=True)"
)

LISTENER = """\
import os, socket
listener = socket.create_server(("127.0.0.1", 0))
print("listens at", listener.getsockname()[1], flush=True)
connection, _ = listener.accept()
while data := connection.recv(65536):
    os.write(1, data)
"""
"""A program that does the same as ``nc -l``, at a free port."""


def job_environment(folder: Path) -> dict[str, str]:
    """Return the environment of both jobs."""
    own = folder / "home"
    own.mkdir(exist_ok=True)
    return {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "HOME": str(own)}


def stock_seconds(folder: Path, environ: Mapping[str, str]) -> float:
    """Return the seconds with ``pudb.remote`` and a listener."""
    script = folder / "stock.py"
    with Terminal([sys.executable, "-c", LISTENER], LINES, COLUMNS, environ) as terminal:
        port = re.findall(r"listens at (\d+)", terminal.wait_for(re.compile(r"listens at \d+$", re.MULTILINE)))[0]
        script.write_text(JOB.replace("    pass  # stop", STOCK_CALL.format(port=port)))
        start = time.monotonic()
        job = subprocess.Popen(
            torchrun(2, str(script)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(environ),
        )
        try:
            terminal.wait_for(DRAWN, PATIENCE)
            return time.monotonic() - start
        finally:
            job.terminate()
            job.wait()


def run_seconds(folder: Path, environ: Mapping[str, str]) -> float:
    """Return the seconds with one command; from the second call on the broker already runs."""
    script = folder / "ours.py"
    script.write_text(JOB)
    run = str(Path(sys.executable).with_name("dbg-attach"))
    stop = ["--ranks", "0", "--stop-at", f"{script}:{STOP_LINE}"]
    start = time.monotonic()
    with Terminal([run, "run", *stop, "--", *torchrun(2, str(script))], LINES, COLUMNS, environ) as terminal:
        terminal.wait_for(DRAWN, PATIENCE)
        took = time.monotonic() - start
        terminal.send(DETACH)
        terminal.wait_for("press Enter to return")
        terminal.send(b"\x03")
        terminal.exit_status(PATIENCE)
    return took


def needs_torch() -> None:
    """Refuse to measure without torch."""
    if find_spec("torch") is None:
        raise Unmeasurable("torch is not installed, which the job needs; make torch WITH_TORCH=1 installs it")


def prompt(bench: Bench) -> list[Figure]:
    """Measure both; the first run of each, which starts the broker, is dropped."""
    needs_torch()
    folder = bench.folder
    environ = {**bench.processes.marked(job_environment(folder)), "DBG_HOME": str(folder / "dbg"), "DBG_IDLE": "5"}
    ways = {
        "stock pudb.remote and a listener": lambda: stock_seconds(folder, environ),
        "dbg-attach run": lambda: run_seconds(folder, environ),
    }
    return compared(interleaved(ROUNDS, ways), "s")


ROWS = (Row("prompt", "the command until PuDB is on the screen, two ranks of torchrun with a compiled model", prompt),)
