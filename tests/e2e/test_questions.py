"""One question to all ranks of a job: real ranks, a real broker, and `dbg-attach` as a script would call it."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.launchers import mpirun, torchrun
from tests.support.processes import Child, Processes
from tests.support.pudb_terminal import sit_in_pudb
from tests.support.ranks import ask, attach, start_ranks, states, texts, wait_until, wait_until_states
from tests.support.requirements import needs_mpirun, needs_torch
from tests.support.slurm import Slurm
from tests.support.time_unit import seconds

SCRIPT = """\
import os
import sys
import threading
import dbg_agent
dbg_agent.install(mesh={"dp": 2, "tp": 2})
rank = int(os.environ["RANK"])

def work(batch):
    loss = 0.25 if rank != 2 else float("nan")
    thing = object()
    dbg_agent.set_trace()
    first = 1
    second = 2
    print("went on", first, second)

def prints():
    print("printed by the question")
    return rank

def waits():
    threading.Event().wait()

def fails():
    raise ValueError("on one rank") if rank == 1 else KeyError("elsewhere")

work(batch=[1, 2])
"""

LINE = SCRIPT.splitlines().index("    dbg_agent.set_trace()") + 1


@pytest.fixture
def job(processes: Processes, home: Path) -> list[Child]:
    """Four ranks that are stopped in ``work``."""
    running_broker(processes, home)
    ranks = start_ranks(processes, home, SCRIPT, 4)
    wait_until_states(home, dict.fromkeys(range(4), "stopped"))
    return ranks


@dataclass(frozen=True)
class Standing:
    """Four ranks that are stopped in ``work``, for tests that leave them as they are."""

    home: Path
    ranks: list[Child]


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    folder = tmp_path_factory.mktemp("standing")
    home = folder / "dbg"
    home.mkdir(0o700)
    started = Processes(folder / "logs")
    try:
        running_broker(started, home)
        ranks = start_ranks(started, home, SCRIPT, 4)
        wait_until_states(home, dict.fromkeys(range(4), "stopped"))
        yield Standing(home, ranks)
        # Nothing that was evaluated or printed in them meanwhile has changed what they do and write.
        end(home, ranks)
        assert [rank.text() for rank in ranks] == ["went on 1 2\n"] * 4
    finally:
        started.end_all()


together = pytest.mark.xdist_group("questions to standing ranks")
"""The mark of tests of the standing ranks: each worker would start its own."""


def end(home: Path, job: list[Child]) -> None:
    assert attach(home, "continue", "all").returncode == 0
    assert [rank.wait() for rank in job] == [0] * len(job)


@together
def test_equal_answers_are_one_group_and_the_odd_one_stands_out(standing: Standing) -> None:
    frame = {"file": str(standing.home / "rank_script.py"), "line": LINE, "function": "work"}
    assert ask(standing.home, "eval", "all", "loss") == {
        "schema": 1,
        "command": "loss",
        "asked": 4,
        "answered": 4,
        "groups": [
            {"id": "@1", "kind": "value", "ranks": "0-1,3", "count": 3, "text": "0.25", "frame": frame},
            {"id": "@2", "kind": "value", "ranks": "2", "count": 1, "text": "nan", "frame": frame},
        ],
        "missing": [],
    }


@together
def test_addresses_do_not_tell_objects_apart_unless_asked_to(standing: Standing) -> None:
    assert len(ask(standing.home, "eval", "all", "thing")["groups"]) == 1
    assert len(ask(standing.home, "eval", "all", "thing", "--exact")["groups"]) > 1


@together
def test_an_expression_sees_locals_also_from_within_and_changes_nothing(standing: Standing) -> None:
    assert texts(ask(standing.home, "eval", "all", "[x * len(batch) for x in batch]")) == {"0-3": "[2, 4]"}


@together
def test_what_raises_is_an_answer_and_none_is_dropped(standing: Standing) -> None:
    document = ask(standing.home, "eval", "all", "fails()")
    assert document["answered"] == 4
    assert texts(document) == {"0,2-3": "KeyError: 'elsewhere'", "1": "ValueError: on one rank"}
    assert {group["kind"] for group in document["groups"]} == {"error"}
    assert attach(standing.home, "eval", "all", "fails()").returncode == 0


@together
def test_what_an_expression_prints_meets_the_terminal_and_not_the_jobs_log(standing: Standing) -> None:
    answers = texts(ask(standing.home, "eval", "0", "prints()"))
    assert "printed by the question" in answers["0"]
    # The end of the standing ranks shows that it is not in their output.


@together
def test_one_that_never_ends_is_interrupted_at_its_deadline_and_the_rank_is_unharmed(standing: Standing) -> None:
    document = ask(standing.home, "eval", "0-1", "waits() if rank == 1 else rank", "--timeout", "3")
    by_rank = texts(document)
    assert by_rank["0"] == "0"
    assert "interrupted" in by_rank["1"]
    assert texts(ask(standing.home, "eval", "0-1", "loss")) == {"0-1": "0.25"}


def test_a_rank_that_cant_answer_is_named_at_the_deadline(home: Path, job: list[Child]) -> None:
    job[3].signal(signal.SIGSTOP)
    document = ask(home, "eval", "all", "loss", "--timeout", "2")
    assert document["answered"] == 3
    (silent,) = [group for group in document["groups"] if group["kind"] == "silent"]
    assert silent["id"] == "@?"
    assert silent["ranks"] == "3"
    assert attach(home, "eval", "all", "loss", "--timeout", "2").returncode == 6
    job[3].signal(signal.SIGCONT)
    end(home, job)


def test_a_rank_that_dies_in_the_middle_is_lost_at_once(home: Path, job: list[Child]) -> None:
    document = ask(
        home, "eval", "all", "__import__('os').kill(__import__('os').getpid(), 9) if rank == 2 else rank // 4"
    )
    by_kind = {group["kind"]: group["ranks"] for group in document["groups"]}
    assert by_kind == {"value": "0-1,3", "lost": "2"}
    job[2].wait()
    assert attach(home, "continue", "all").returncode == 0
    assert [job[rank].wait() for rank in (0, 1, 3)] == [0, 0, 0]


def test_a_question_leaves_an_open_debugger_and_its_driver_alone(
    home: Path, job: list[Child], open_terminal: OpenTerminal
) -> None:
    terminal = sit_in_pudb(open_terminal, "0")
    before = terminal.dump()
    assert texts(ask(home, "eval", "0", "batch")) == {"0": "[1, 2]"}
    assert texts(ask(home, "command", "0", "p loss * 2")) == {"0": "0.5"}
    assert terminal.dump() == before
    assert [rank["driver"] is not None for rank in wait_until(home, bool, "a rank") if rank["rank"] == 0] == [True]
    terminal.send(b"\x1dd")
    assert terminal.exit_status() == 0
    end(home, job)


@pytest.mark.parametrize("engine", ["pudb", "pdb"])
def test_a_step_is_one_step_everywhere(processes: Processes, home: Path, engine: str) -> None:
    running_broker(processes, home)
    # The ranks live on, since a rank that ends may be gone before its last answer is sent.
    start_ranks(processes, home, f"{SCRIPT}waits()\n", 3, env={"DBG_ENGINE": engine})
    wait_until_states(home, dict.fromkeys(range(3), "stopped"))
    first = texts(ask(home, "command", "all", "n"))
    second = texts(ask(home, "command", "all", "n"))
    (there,), (then,) = first.values(), second.values()
    assert list(first) == ["0-2"]
    # pdb begins at the line after the stop, so its first step ends one line later than PuDB's.
    begin = LINE + (1 if engine == "pudb" else 2)
    assert there.endswith(f":{begin} work")
    assert then.endswith(f":{begin + 1} work")
    assert texts(ask(home, "command", "all", "c")) == {"0-2": "running"}
    wait_until_states(home, dict.fromkeys(range(3), "running"))


def test_a_breakpoint_for_all_stops_those_of_its_condition(home: Path, job: list[Child]) -> None:
    script = str(home / "rank_script.py")
    set_everywhere = ask(home, "command", "all", f"b {script}:{LINE + 3}, rank == 3")
    assert [group["ranks"] for group in set_everywhere["groups"]] == ["0-3"]
    assert attach(home, "continue", "all").returncode == 0
    (stopped,) = wait_until_states(home, {3: "stopped"})
    assert stopped["where"]["line"] == LINE + 3
    assert [job[rank].wait() for rank in range(3)] == [0, 0, 0]
    assert attach(home, "continue", "3").returncode == 0
    assert job[3].wait() == 0


def test_where_merges_running_and_stopped_ranks(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    script = """\
import os, time, dbg_agent
dbg_agent.install()
def train():
    if os.environ["RANK"] == "1":
        load()
    dbg_agent.set_trace()
def load():
    time.sleep(600)
train()
"""
    start_ranks(processes, home, script, 3)
    wait_until_states(home, {0: "stopped", 1: "running", 2: "stopped"})
    document = ask(home, "where", "all")
    stacks = {group["ranks"]: [frame["function"] for frame in group["frames"]] for group in document["groups"]}
    assert stacks == {"0,2": ["<module>", "train"], "1": ["<module>", "train", "load"]}
    assert document["answered"] == 3
    assert document["groups"][0]["frames"][1] == {"file": str(home / "rank_script.py"), "line": 6, "function": "train"}
    shown = attach(home, "where", "all").stdout
    assert "load" in shown
    assert attach(home, "kill", "all", "-y").returncode == 0


@together
def test_what_is_asked_is_compared_with_another_moment(standing: Standing, tmp_path: Path) -> None:
    saved = tmp_path / "before.json"
    assert attach(standing.home, "eval", "all", "len(batch)", "--save", str(saved)).returncode == 0
    assert json.loads(saved.read_text())["schema"] == 1
    assert (
        attach(standing.home, "eval", "all", "len(batch)", "--against", str(saved), "--fail-if-differ").returncode == 0
    )
    assert (
        attach(
            standing.home, "eval", "all", "len(batch) + (rank == 2)", "--against", str(saved), "--fail-if-differ"
        ).returncode
        == 1
    )
    assert attach(standing.home, "eval", "all", "rank", "--fail-if-differ").returncode == 1


def test_running_ranks_are_asked_only_live(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    script = """\
import dbg_agent, os
dbg_agent.install()
count = 0
while not os.path.exists("stop"):
    count += 1
"""
    job = start_ranks(processes, home, script, 2)
    wait_until_states(home, {0: "running", 1: "running"})
    document = ask(home, "eval", "all", "count > 0")
    assert {group["kind"] for group in document["groups"]} == {"running"}
    assert texts(ask(home, "eval", "all", "count > 0", "--live")) == {"0-1": "True"}
    assert states(wait_until(home, bool, "ranks")) == {0: "running", 1: "running"}
    for number, rank in enumerate(job):
        (home / "homes" / f"rank{number}" / "stop").touch()
        assert rank.wait(seconds(20)) == 0


LAUNCHED = """\
import os
import time
import dbg_agent
dbg_agent.install()
count = 0

def train():
    global count
    print("trains", flush=True)
    while not os.access(os.environ["DBG_HOME"] + "/end", os.F_OK):
        count += 1
        time.sleep(0.01)

train()
"""


def interview(home: Path, n: int, job: Child, within: float | None = None) -> None:
    """Break into all ranks of a launched job, ask them, move them, and let the job end well."""
    everyone = f"0-{n - 1}"
    wait_until_states(home, dict.fromkeys(range(n), "running"), within)
    # A rank is listed before its script goes on; only in ``train`` do all have the same stack, at lines that differ.
    job.wait_for_output(rf"(?:trains[\s\S]*){{{n}}}", within)
    where = ask(home, "where", "all")
    assert where["answered"] == n
    stacks = {tuple(frame["function"] for frame in group["frames"]) for group in where["groups"]}
    assert stacks == {("<module>", "train")}
    assert texts(ask(home, "eval", "all", "count >= 0", "--live")) == {everyone: "True"}
    # Ranks in their short sleep stop when it returns, so all are stopped a moment later.
    assert ask(home, "interrupt", "all", "-y")["asked"] == n
    wait_until_states(home, dict.fromkeys(range(n), "stopped"))
    assert texts(ask(home, "eval", "all", "count >= 0")) == {everyone: "True"}
    moved = ask(home, "command", "all", "n")
    assert (moved["asked"], moved["answered"]) == (n, n)
    assert texts(ask(home, "command", "all", "p count >= 0")) == {everyone: "True"}
    assert attach(home, "continue", "all").returncode == 0
    (home / "end").touch()
    assert job.wait(seconds(30)) == 0, job.tail()


@pytest.fixture
def launched(tmp_path: Path) -> str:
    """Return the path of a script that trains until it is told to end."""
    script = tmp_path / "train.py"
    script.write_text(LAUNCHED)
    return str(script)


@needs_torch
@pytest.mark.timeout(seconds(120))
def test_all_of_it_under_torchrun(processes: Processes, home: Path, launched: str) -> None:
    running_broker(processes, home)
    job = processes.start("torchrun", torchrun(3, launched), env={**os.environ, "OMP_NUM_THREADS": "1"})
    interview(home, 3, job, seconds(60))


@needs_mpirun
def test_all_of_it_under_mpirun(processes: Processes, home: Path, launched: str) -> None:
    running_broker(processes, home)
    interview(home, 3, processes.start("mpirun", mpirun(3, sys.executable, launched)))


def test_all_of_it_under_srun(slurm: Slurm, processes: Processes, home: Path, launched: str) -> None:
    running_broker(processes, home)
    command = ["srun", "-N2", "-n4", "--ntasks-per-node=2", sys.executable, launched]
    interview(home, 4, processes.start("srun", command, env=slurm.environment()))
