"""`dbg-attach adopt`: jobs that nobody prepared become ranks, and go on as they were."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from dbg_client.adopt.checks import examine
from dbg_client.adopt.inject import Injection, Pipe
from dbg_client.adopt.payload import Outcome, as_expression
from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker, running_broker
from tests.support.launchers import torchrun
from tests.support.processes import Child, Processes
from tests.support.pudb_terminal import sit_in_pudb
from tests.support.ranks import attach, attach_command, attach_list, wait_until
from tests.support.requirements import needs_gdb, needs_torch
from tests.support.time_unit import seconds

pytestmark = needs_gdb

SLEEPS = """\
import time

def wait_for_shard():
    shard = 17
    while True:
        time.sleep(1000)

def train_step():
    wait_for_shard()

print("up", flush=True)
train_step()
"""

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

STARTS_A_WORKER = """\
import os, subprocess, sys, time
if os.environ["LOCAL_RANK"] == "0":
    subprocess.Popen([sys.executable, __file__], env={**os.environ, "LOCAL_RANK": "1"})
else:
    print("worker", os.getpid(), "up", flush=True)
time.sleep(1000)
"""

NOBODY = 65534

AS_NOBODY = (
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
)
"""Runs a program as another user, who can read an interpreter in root's own folder, as that of a test may be."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root adopts processes of other users")

JOB = {"SLURM_JOB_ID": str(uuid.uuid4().int % 10**12)}
"""A scheduler's job of the test's own: `--mine` must find no process of another test."""

TIMES = int(os.environ.get("DBG_TEST_ADOPTIONS", "6"))
"""Adoptions of the busy process; each takes 0.3 to 0.6 s, so a hundred are for a run by hand."""


def unprepared() -> dict[str, str]:
    """Return an environment without any variable of ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith("DBG_")}


def start(
    processes: Processes, home: Path, script: str, *arguments: str, wrap: Sequence[str] = (), **variables: str
) -> Child:
    """Start a script that knows nothing of us, by the command ``wrap`` if any, and return when it runs."""
    path = home / "train.py"
    path.write_text(script)
    command = [*wrap, sys.executable, str(path), *arguments]
    child = processes.start("train", command, env={**unprepared(), **variables})
    child.wait_for_output("up", timeout=seconds(60))
    return child


def test_an_adopted_hang_is_seen_asked_and_broken_into(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    child = start(processes, home, SLEEPS, RANK="3", WORLD_SIZE="8")
    adopted = attach(home, "adopt", str(child.pid))
    assert adopted.returncode == 0, adopted.stderr
    (rank,) = attach_list(home)
    assert adopted.stdout == f"adopted {rank['address']} (pid {child.pid}): dbg-attach where {rank['address']}\n"
    assert (rank["rank"], rank["world_size"], rank["pid"]) == (3, 8, child.pid)
    assert "train_step train.py:9 > wait_for_shard train.py:6" in attach(home, "where", "3").stdout
    assert "17" in attach(home, "eval", "3", "shard", "--live").stdout
    again = attach(home, "adopt", str(child.pid))
    assert (again.returncode, "is a rank already" in again.stderr) == (1, True)
    terminal = sit_in_pudb(open_terminal, "interrupt", "3")
    terminal.send("q")
    wait_until(home, lambda listed: listed[0]["state"] == "stopped", "the stop")
    assert child.exit_status is None


@needs_root
def test_a_process_of_another_user_that_may_not_read_the_token_is_left_alone(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    child = start(processes, home, SLEEPS, wrap=AS_NOBODY)
    refused = attach(home, "adopt", str(child.pid))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        f"dbg-attach: process {child.pid} belongs to user {NOBODY}, who may not read {home}/broker.json, so that it "
        "could never reach the broker; type this command as that user, with a broker of that user\n"
    )
    assert_untouched(child)


@pytest.mark.parametrize("wrap", [(), pytest.param(AS_NOBODY, marks=needs_root)], ids=["own", "of nobody"])
def test_a_process_that_would_have_no_token_is_left_alone(
    wrap: Sequence[str], processes: Processes, home: Path, tmp_path: Path
) -> None:
    broker = running_broker(processes, home)
    child = start(processes, home, SLEEPS, wrap=wrap)
    refused = attach(tmp_path / "no home", "adopt", str(child.pid), env=terminal_without_home(broker))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        f"dbg-attach: process {child.pid} would have no token for the broker, since a terminal's own is none for "
        "ranks; set DBG_HOME to the broker's home, or start the program with a DBG_TOKEN_FILE for ranks\n"
    )
    assert_untouched(child)


@needs_root
def test_a_process_of_another_user_that_has_a_token_is_adopted_by_root(
    processes: Processes, home: Path, tmp_path: Path
) -> None:
    broker = running_broker(processes, home)
    token = tmp_path / "token"
    token.write_text(broker.tokens["rank"])
    token.chmod(0o600)
    os.chown(token, NOBODY, NOBODY)
    child = start(processes, home, SLEEPS, wrap=AS_NOBODY, DBG_TOKEN_FILE=str(token))
    adopted = attach(tmp_path / "no home", "adopt", str(child.pid), env=terminal_without_home(broker))
    assert adopted.returncode == 0, adopted.stderr
    (rank,) = attach_list(home)
    assert rank["pid"] == child.pid
    assert "wait_for_shard train.py:6" in attach(home, "where", "all").stdout
    assert child.exit_status is None


def test_one_that_never_leaves_c_code_is_told_within_seconds(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    child = start(processes, home, BACKTRACKS)
    refused = attach(home, "adopt", str(child.pid), timeout=seconds(20))
    assert refused.returncode == 1
    why = "is in C code and keeps the interpreter's lock, in its main thread, so that no Python code can run in it"
    assert refused.stderr == (
        f"dbg-attach: process {child.pid} {why}; it becomes a rank as soon as its main thread runs Python code again; "
        f"`py-spy dump --native --pid {child.pid}` shows where it is\n"
    )
    assert child.exit_status is None


def test_of_two_adoptions_at_once_one_says_that_it_is_a_rank_already(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    child = start(processes, home, SLEEPS)
    command = attach_command("adopt", str(child.pid))
    both = [processes.start(f"adopt{number}", command) for number in range(2)]
    assert min(adopting.wait(seconds(60)) for adopting in both) == 0
    first, second = sorted(adopting.text() + adopting.text("stderr") for adopting in both)
    (rank,) = attach_list(home)
    told = {f"{one}\n" for said in (first, second) for one in said.splitlines()}
    adopted = f"adopted {rank['address']} (pid {child.pid}): dbg-attach where {rank['address']}\n"
    assert adopted in told
    assert told - {adopted} <= {
        f"{rank['address']} (pid {child.pid}) is a rank already: dbg-attach where {rank['address']}\n",
        f"dbg-attach: process {child.pid} is a rank already; `dbg-attach list` shows it, if its broker is this one\n",
    }
    assert len(told) == 2
    assert child.exit_status is None


def test_a_worker_with_a_local_rank_of_its_own_is_told_and_adopted_by_its_number(
    processes: Processes, home: Path
) -> None:
    running_broker(processes, home)
    place = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", **JOB}
    child = start(processes, home, STARTS_A_WORKER, **place)
    worker = int(child.wait_for_output(r"worker (\d+) up")[1])
    adopted = attach(home, "adopt", "--mine", "-y", env=JOB)
    assert adopted.returncode == 0, adopted.stderr
    assert f"(pid {child.pid})" in adopted.stdout
    assert adopted.stderr == (
        f"process {worker} ({home}/train.py) has LOCAL_RANK=1 and no MASTER_ADDR, so that it is taken for no rank; "
        f"`dbg-attach adopt {worker}` takes it all the same\n"
    )
    named = attach(home, "adopt", str(worker))
    assert named.returncode == 0, named.stderr
    assert {rank["pid"] for rank in attach_list(home)} == {child.pid, worker}


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
    assert (again.returncode, again.stderr) == (0, "2 of your processes here are ranks already.\n")
    assert job.exit_status is None


@needs_torch
@pytest.mark.timeout(300)
def test_a_busy_process_bears_many_adoptions(processes: Processes, home: Path) -> None:
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
import json, os, threading
pipe = os.open({path!r}, os.O_WRONLY | os.O_NONBLOCK)
told = dict(outcome="adopted", main=threading.current_thread() is threading.main_thread())
os.write(pipe, (json.dumps(told) + "\\n").encode())
os.close(pipe)
"""


def terminal_without_home(broker: RunningBroker) -> dict[str, str]:
    """Return the variables of a terminal that has an address and a token of its own, and no home."""
    address = f"{broker.rendezvous['url']}#{broker.rendezvous['fingerprint']}"
    return {"DBG_BROKER": address, "DBG_TOKEN": broker.tokens["driver"]}


def assert_untouched(child: Child) -> None:
    """Check that a process of one thread goes on and has no other, as an agent would be that tries for ever."""
    assert child.exit_status is None
    assert len(list(Path(f"/proc/{child.pid}/task").iterdir())) == 1


@contextmanager
def a_pipe(folder: Path) -> Iterator[Pipe]:
    """Make a pipe for answers in a new folder."""
    folder.mkdir()
    pipe = Pipe(str(folder))
    try:
        yield pipe
    finally:
        pipe.close()
