"""`dbg-attach adopt`: jobs that nobody prepared become ranks, and go on as they were."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dbg_client.adopt.inject import Injection, Pipe
from dbg_client.adopt.one import examine
from dbg_client.adopt.payload import Outcome, as_expression
from tests.e2e.test_adopt import start, unprepared
from tests.support.broker import running_broker
from tests.support.launchers import torchrun
from tests.support.processes import Processes
from tests.support.ranks import attach, attach_list
from tests.support.requirements import needs_gdb, needs_torch
from tests.support.time_unit import seconds

pytestmark = needs_gdb


HANGS = """\
import os, sys, torch, torch.distributed as dist

def reduce_gradients(tensor):
    dist.all_reduce(tensor)

def wait_for_data():
    os.read(os.pipe()[0], 1)

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
print("up", flush=True)
wait_for_data() if dist.get_rank() == 1 else reduce_gradients(torch.ones(4))
"""


TRAINS = """\
import gc, hashlib, os, sys, threading, time
import torch, torch.distributed as dist

dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
end = threading.Event()

def collect():
    while not end.wait(0.0005):
        cycle = [{} for _ in range(500)]
        cycle.append(cycle)
        del cycle
        gc.collect(0)

def allocate():
    while not end.wait(0.001):
        hashlib.sha256([bytearray(n * 1000) for n in range(1, 200)][-1] * 10).digest()

threads = [threading.Thread(target=work) for work in (collect, allocate)]
for thread in threads:
    thread.start()

def losses():
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(20):
        data = torch.randn(128, 64)
        loss = (model(data) - data).square().mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        yield loss.item()

expected = list(losses())
print("up", flush=True)
rounds = 0
while not os.path.exists(sys.argv[2]):
    assert list(losses()) == expected
    rounds += 1
end.set()
for thread in threads:
    thread.join()
print("same", rounds, flush=True)
"""


BACKTRACKS = """\
import re

def parse_log(line):
    return re.match(r"(a+)+$", line)

print("up", flush=True)
parse_log("a" * 60 + "b")
"""


JOB = {"SLURM_JOB_ID": str(uuid.uuid4().int % 10**12)}
"""A scheduler's job of the test's own: `--mine` must find no process of another test."""


TIMES = int(os.environ.get("DBG_TEST_ADOPTIONS", "6"))
"""Adoptions of the busy process; each takes 0.3 to 0.6 s, so a hundred are for a run by hand."""


def test_a_process_that_never_leaves_c_code_is_refused_within_seconds(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    child = start(processes, home, BACKTRACKS)
    refused = attach(home, "adopt", str(child.pid), timeout=seconds(20))
    assert refused.returncode == 1
    assert f"--pid {child.pid}`" in refused.stderr
    assert child.exit_status is None


@needs_torch
def test_a_hung_torchrun_is_adopted_as_a_whole(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    script = home / "hangs.py"
    script.write_text(HANGS)
    job = processes.start("torchrun", torchrun(2, str(script)), env={**unprepared(), **JOB})
    job.wait_for_output(r"up(.|\n)*up", timeout=seconds(90))
    adopted = attach(home, "adopt", "--mine", "-y", env=JOB, timeout=seconds(60))
    assert adopted.returncode == 0, adopted.stderr
    assert len(adopted.stdout.splitlines()) == 2, adopted.stdout
    assert {rank["rank"] for rank in attach_list(home)} == {0, 1}
    tree = attach(home, "where", "all").stdout
    assert "reduce_gradients" in tree
    assert "wait_for_data" in tree
    again = attach(home, "adopt", "--mine", "-y", env=JOB)
    assert (again.returncode, again.stdout) == (0, "")
    assert job.exit_status is None


@needs_torch
@pytest.mark.timeout(300)
def test_a_busy_process_survives_many_adoptions(processes: Processes, home: Path) -> None:
    stop = home / "stop"
    child = start(processes, home, TRAINS, str(home / "store"), str(stop))
    for number in range(TIMES):
        ready = examine(child.pid)
        assert ready.gdb is not None
        with a_pipe(home / str(number)) as pipe:
            code = as_expression(NOTHING.format(path=pipe.path))
            answer = Injection(ready.gdb, child.pid, ready.python, code, pipe.answer).run()
        assert (answer.outcome, answer.main) == (Outcome.ADOPTED, True), answer
    stop.touch()
    assert int(child.wait_for_output(r"same (\d+)", timeout=seconds(60))[1]) > 0


NOTHING = """\
import os, threading
pipe = os.open({path!r}, os.O_WRONLY | os.O_NONBLOCK)
main = "main" if threading.current_thread() is threading.main_thread() else ""
os.write(pipe, f"adopted\\t\\t{{main}}\\t\\n".encode())
os.close(pipe)
"""


@contextmanager
def a_pipe(folder: Path) -> Iterator[Pipe]:
    """Make a pipe for answers in a new folder."""
    folder.mkdir()
    pipe = Pipe(str(folder))
    try:
        yield pipe
    finally:
        pipe.close()
