"""A process finds an identity of its own in any environment and beside any framework."""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.launch.launchers import ROWS
from dbg_agent.launch.this_process import (
    MAX_ANCESTORS,
    MAX_NAME,
    Identity,
    ancestors,
    framework_rank,
    identify,
    this_process,
)
from dbg_agent.settings import as_mesh, coordinates
from dbg_wire.launchers import is_launcher
from tests.support.launcher_variables import SRUN

NAME = re.compile(r"[A-Za-z0-9._-]+")

KNOWN_VARIABLES = sorted(
    {
        name
        for row in ROWS
        for name in (row.rank, row.restart, row.node, *row.local, *row.world, *row.needs, *row.any_of)
        if name
    }
    | {
        *("DBG_LOCAL_RANK", "DBG_JOB", "DBG_HOST", "MASTER_ADDR", "MASTER_PORT", "GROUP_WORLD_SIZE", "MS_ROLE"),
        *("TORCHELASTIC_ERROR_FILE", "PMIX_NAMESPACE", "MPI_LOCALNRANKS", "JOB_NAME", "MS_SCHED_HOST", "MS_SCHED_PORT"),
        *("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_TASK_PID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"),
        *("SLURM_RESTART_COUNT", "LSB_JOBID", "LSB_JOBINDEX", "FLUX_JOB_ID", "PBS_JOBID"),
    }
)

# What the operating system may hand over: any text, and bytes that are no text as lone surrogates.
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=200)
VALUES = st.one_of(
    st.integers(-1, 9).map(str),
    ANY_TEXT,
    st.sampled_from(["none", "MS_WORKER", "4294967291", "/t/none_x/attempt_0/1/error.json", "9" * 5000]),
)
ENVIRONMENTS = st.dictionaries(st.sampled_from(KNOWN_VARIABLES), VALUES)


def who(environ: Mapping[str, str], **changes: Any) -> Identity:
    known: dict[str, Any] = {
        "argv": ["train.py"],
        "executable_module": None,
        "pid": 1000,
        "hostname": "vm",
        "directory": "/home/me",
    }
    return identify(environ, **(known | changes))


PROCESSES = st.fixed_dictionaries(
    {
        "argv": st.lists(ANY_TEXT, max_size=2),
        "executable_module": st.none() | ANY_TEXT,
        "hostname": ANY_TEXT,
        "directory": ANY_TEXT,
        "framework": st.none() | st.sampled_from([(0, 2), (5, 8)]),
        "ancestors": st.none() | st.lists(st.integers(1, 9)).map(tuple),
        "proxy_pid": st.none() | st.integers(1, 9),
    }
)


@given(environ=ENVIRONMENTS, process=PROCESSES)
def test_any_environment_gives_a_usable_identity(environ: dict[str, str], process: dict[str, Any]) -> None:
    me = who(environ, **process)
    for name in (me.job, me.run, me.host):
        assert NAME.fullmatch(name)
        assert len(name) <= MAX_NAME
    assert me.rank >= 0
    assert me.world_size is None or me.rank < me.world_size
    assert me.local_rank is None or me.local_rank >= 0
    assert f"{me.script}{me.directory}".encode()
    assert who(environ, **process).key == me.key


def test_key_holds_all_that_distinguishes_ranks() -> None:
    environ = {"DBG_RANK": "3", "DBG_JOB": "mine", "MASTER_ADDR": "h1", "MASTER_PORT": "29500", "DBG_HOST": "gpu01"}
    assert who(environ).key == "mine/h1-29500.0/gpu01:3/1000"
    # A name does not look like an option, and long ones that differ at the end stay apart.
    assert who({"DBG_JOB": "--kill", "DBG_HOST": "-y"}).key.startswith("kill/train.py-1000.0/y:")
    one, other = (who({"DBG_JOB": "x" * 300 + end}) for end in "ab")
    assert one.job != other.job
    assert len(one.job) == MAX_NAME


@pytest.mark.parametrize(
    ("hostname", "host"),
    [("gpu01.cluster.org", "gpu01"), ("10.1.2.3", "10.1.2.3"), ("", "unknown"), ("\x1b[2J", "2J")],
)
def test_host_is_the_short_name(hostname: str, host: str) -> None:
    assert who({}, hostname=hostname).host == host


TORCH = {"TORCHELASTIC_RUN_ID": "exp", "RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}


@pytest.mark.parametrize(
    ("explicit", "expected"),
    [
        pytest.param({"DBG_RANK": "3"}, (3, 1, 8), id="rank alone"),
        pytest.param({"DBG_RANK": "9"}, (9, 1, None), id="rank outside the launcher's world"),
        pytest.param({"DBG_RANK": "9", "DBG_WORLD_SIZE": "16"}, (9, 1, 16), id="rank and world"),
        pytest.param({"DBG_RANK": "9", "DBG_WORLD_SIZE": "4"}, (5, 1, 8), id="contradicting each other"),
        pytest.param({"DBG_RANK": "three"}, (5, 1, 8), id="rank is a word"),
        pytest.param({"DBG_WORLD_SIZE": "5"}, (5, 1, 8), id="world too small"),
        pytest.param({"DBG_LOCAL_RANK": "0"}, (5, 0, 8), id="local rank alone"),
    ],
)
def test_explicit_variables_override_single_fields(
    explicit: dict[str, str], expected: tuple[int, int | None, int | None]
) -> None:
    me = who(TORCH | explicit)
    assert (me.rank, me.local_rank, me.world_size) == expected
    assert me.launcher == "torchrun"


def test_the_framework_overrides_the_launcher_and_an_explicit_rank_overrides_both() -> None:
    assert who(TORCH | {"DBG_RANK": "2"}, framework=(6, 8)).rank == 2
    me = who(TORCH, framework=(6, 16))
    # The framework names no local rank, so that of the launcher, in LOCAL_RANK, counts.
    assert (me.rank, me.local_rank, me.world_size) == (6, 1, 16)
    assert who(SRUN, framework=(3, 16)).local_rank == 1
    assert who(SRUN, framework=(2, 16)).local_rank is None, "that of another rank"


@pytest.mark.parametrize(
    ("environ", "more", "is_rank"),
    [
        pytest.param(TORCH, -6, False, id="an engine of a few processes"),
        pytest.param(TORCH, 0, False, id="an engine of as many processes"),
        pytest.param(TORCH, 8, True, id="more ranks than launched"),
        pytest.param(SRUN, 0, True, id="one rank for each task"),
        pytest.param({}, 2, True, id="no launcher"),
    ],
)
@pytest.mark.parametrize("claimant", [999, 1000])
def test_a_child_takes_its_number_from_the_library_that_connected_the_job(
    environ: Mapping[str, str], more: int, is_rank: bool, claimant: int
) -> None:
    world = (who(environ).world_size or 0) + more
    me = who(dict(environ) | {"DBG_AUTOSTART": f"rank:{claimant}:none"}, framework=(1, world))
    assert me.by_library is (is_rank or claimant == me.pid)


def test_ranks_that_a_script_spawns_agree_once_their_framework_is_up() -> None:
    environ = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    one, other = (who(environ, pid=100 + rank, framework=(rank, 2)) for rank in (0, 1))

    assert one.launcher == other.launcher == "framework"
    assert (one.job, one.run) == (other.job, other.run) == ("localhost-29500", "0")


@pytest.mark.parametrize(
    ("argv", "module", "script", "job"),
    [
        (["train.py"], None, "/home/me/train.py", "train.py-1000"),
        (["../you/train.py"], None, "/home/you/train.py", "train.py-1000"),
        (["/opt/run"], None, "/opt/run", "run-1000"),
        (["/venv/torch/pkg/__main__.py"], "pkg.__main__", "-m pkg", "pkg-1000"),
        (["train.py"], "dbg_agent.__main__", "/home/me/train.py", "train.py-1000"),
        (["-c"], None, "-c", "python-1000"),
        ([], None, "-", "python-1000"),
        (["tr\udcffain.py"], None, "/home/me/tr?ain.py", "tr-ain.py-1000"),
    ],
)
def test_script(argv: list[str], module: str | None, script: str, job: str) -> None:
    me = who({}, argv=argv, executable_module=module)
    assert (me.script, me.job) == (script, job)


LAUNCHERS = [
    (["/venv/bin/torchrun", "--standalone", "train.py"], None),
    (["/venv/lib/torch/distributed/run.py"], "torch.distributed.run"),
    (["/venv/bin/accelerate", "launch", "train.py"], None),
    (["/venv/bin/deepspeed", "train.py"], None),
    (["/venv/bin/ray", "start"], None),
    (["/venv/lib/python3.11/site-packages/ray/dashboard/agent.py"], None),
    (["/venv/lib/lightning/fabric/cli.py"], "lightning.fabric.cli"),
    (["mpirun", "-np", "4"], None),
]

PROGRAMS = [
    (["train.py"], None),
    (["/home/me/torchrun.py"], None),
    (["launch.py", "torchrun"], None),
    (["/x/torch/distributed/runner.py"], "torch.distributed.runner"),
    (["/venv/lib/ray/_private/workers/default_worker.py"], None),
    (["/venv/lib/python3.11/site-packages/dbg_agent/__main__.py"], "dbg_agent.__main__"),
    (["-c"], None),
]


@pytest.mark.parametrize(("argv", "module"), [*LAUNCHERS, *PROGRAMS])
def test_launchers_are_distinguished_from_programs(argv: list[str], module: str | None) -> None:
    assert is_launcher(argv, module) == ((argv, module) in LAUNCHERS)


def test_mindspore_scheduler_runs_the_ranks_command() -> None:
    assert is_launcher(["train.py"], None, {"MS_ROLE": "MS_SCHED"})
    assert not is_launcher(["train.py"], None, {"MS_ROLE": "MS_WORKER"})


def torch(rank: object, world: object, *, available: bool = True, initialized: bool = True) -> dict[str, object]:
    module = SimpleNamespace(
        is_available=lambda: available,
        is_initialized=lambda: initialized,
        get_rank=lambda: rank,
        get_world_size=lambda: world,
    )
    return {"torch.distributed": module}


def mpi(rank: int, world: int, *, initialized: bool = True, finalized: bool = False) -> dict[str, object]:
    module = SimpleNamespace(
        Is_initialized=lambda: initialized,
        Is_finalized=lambda: finalized,
        COMM_WORLD=SimpleNamespace(Get_rank=lambda: rank, Get_size=lambda: world),
    )
    return {"mpi4py.MPI": module}


def jax(rank: int | None, world: int | None, *, connected: bool = True) -> dict[str, object]:
    state = SimpleNamespace(client=object() if connected else None, process_id=rank, num_processes=world)
    return {"jax._src.distributed": SimpleNamespace(global_state=state)}


def raises(*_: object) -> NoReturn:
    raise RuntimeError("not today")


class Trap:
    __getattr__ = raises


FRAMEWORKS: dict[str, tuple[dict[str, object], tuple[int, int] | None]] = {
    "none imported": ({}, None),
    "torch": (torch(3, 4), (3, 4)),
    "torch, not yet": (torch(3, 4, initialized=False), None),
    "torch, no member of the group": (torch(-1, 4), None),
    "mpi": (mpi(3, 4), (3, 4)),
    "mpi after Finalize": (mpi(3, 4, finalized=True), None),
    "mpi of a process that mpirun did not start": (mpi(0, 1), None),
    "jax": (jax(3, 4), (3, 4)),
    "jax, not distributed": (jax(None, None, connected=False), None),
    "mindspore": (
        {"mindspore.communication": SimpleNamespace(get_rank=lambda: 3, get_group_size=lambda: 4)},
        (3, 4),
    ),
    "mpi after a torch that is not up": (torch(3, 4, initialized=False) | mpi(1, 2), (1, 2)),
    "jax after others that raise": ({"torch.distributed": Trap(), "mpi4py.MPI": Trap()} | jax(1, 2), (1, 2)),
    "mindspore before init": ({"mindspore.communication": SimpleNamespace(get_rank=raises)}, None),
}


@pytest.mark.parametrize(("modules", "expected"), FRAMEWORKS.values(), ids=FRAMEWORKS)
def test_framework_rank(modules: dict[str, object], expected: tuple[int, int] | None) -> None:
    assert framework_rank(modules) == expected


def launched_with(monkeypatch: pytest.MonkeyPatch, **environ: str) -> None:
    for name in KNOWN_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("dbg_agent.launch.this_process.KNOWN_ABOVE", {})


@pytest.mark.parametrize(("first_namespace", "launcher"), [(True, "none"), (False, "slurm")])
def test_this_process_compares_process_ids_only_outside_containers(
    monkeypatch: pytest.MonkeyPatch, first_namespace: bool, launcher: str
) -> None:
    launched_with(monkeypatch, SLURM_PROCID="0", SLURM_STEP_ID="0", SLURM_TASK_PID="41")
    monkeypatch.setattr(
        "dbg_agent.launch.this_process.processes_above", lambda _: iter([(40, "tmux: server"), (1, "init")])
    )
    monkeypatch.setattr("dbg_agent.launch.this_process.sees_all_processes", lambda: first_namespace)

    assert this_process().launcher == launcher


def test_this_process_finds_its_mpich_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    launched_with(monkeypatch, PMI_RANK="0", PMI_SIZE="2", MPI_LOCALRANKID="0", MPI_LOCALNRANKS="2")
    chain = [(42, "bash"), (41, "hydra_pmi_proxy"), (40, "mpiexec"), (1, "init")]
    monkeypatch.setattr("dbg_agent.launch.this_process.processes_above", lambda _: iter(chain))

    assert this_process().job.endswith("-41")


def test_a_hanging_lookup_of_ancestors_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    launched_with(monkeypatch, SLURM_PROCID="0", SLURM_STEP_ID="0", SLURM_TASK_PID="41")
    never = threading.Event()
    monkeypatch.setattr("dbg_agent.launch.this_process.parent_and_name", lambda _: (never.wait(), (0, ""))[1])
    monkeypatch.setattr("dbg_agent.launch.this_process.ANCESTRY_SECONDS", 0.05)
    for _ in range(100):
        assert this_process().launcher == "slurm"
    assert sum(thread.name == "dbg-agent-asking" for thread in threading.enumerate()) == 1
    never.set()


def test_ancestors_of_this_process_and_of_a_missing_one() -> None:
    chain = ancestors(os.getpid())
    assert chain[0] == os.getppid()
    assert len(chain) <= MAX_ANCESTORS
    assert chain == (os.getppid(), *ancestors(os.getppid()))[:MAX_ANCESTORS]
    assert ancestors(2**31 - 1) == ()


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_ranks_are_placed_along_the_last_axis_first(sizes: list[int]) -> None:
    mesh = as_mesh({f"axis{number}": size for number, size in enumerate(sizes)})
    places = list(itertools.product(*map(range, sizes)))
    assert [tuple(place.index for place in coordinates(mesh, rank)) for rank in range(len(places))] == places
    assert coordinates(mesh, len(places)) == ()


@pytest.mark.parametrize(
    "mesh", [{}, {"pp": 0}, {"a b": 2}, "pp", "pp=x", "dp=2,dp=4", {"x" * 99: 2}, {f"a{n}": 2 for n in range(9)}, 3]
)
def test_an_invalid_mesh_is_refused(mesh: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        as_mesh(mesh)
