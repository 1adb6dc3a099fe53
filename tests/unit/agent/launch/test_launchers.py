"""The variables that each launcher sets for a rank give that rank; a launcher with wrong values does not count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dbg_agent.launch.launchers import ROWS
from dbg_agent.launch.this_process import Identity, identify
from tests.support.launcher_variables import (
    ACCELERATE,
    DEEPSPEED,
    ENV,
    EXPLICIT,
    FLUX,
    INTEL,
    LIGHTNING,
    MPICH,
    MSRUN,
    OPENMPI,
    PALS,
    PMIX,
    POD,
    RANK_TABLE,
    RAY,
    SALLOC_SHELL,
    SBATCH_SHELL,
    SRUN,
    TORCHRUN,
)

RankNumbers = tuple[str, int, int | None, int | None]

NOBODY = ("none", 0, 0, 1)


def who(environ: Mapping[str, str], **changes: Any) -> Identity:
    known: dict[str, Any] = {"pid": 1000, "hostname": "vm.example.org", "directory": "/home/me", **changes}
    return identify(environ, argv=["train.py", "--lr", "1"], executable_module=None, **known)


def numbers(identity: Identity) -> RankNumbers:
    return identity.launcher, identity.rank, identity.local_rank, identity.world_size


RANKS: dict[str, tuple[dict[str, str], RankNumbers, tuple[str, str, str]]] = {
    "torchrun": (TORCHRUN, ("torchrun", 5, 1, 8), ("exp7", "gpu01-29500.2", "vm")),
    "accelerate, no run id": (ACCELERATE, ("torchrun", 1, 1, 4), ("127.0.0.1-29500", "ab12cd34.0", "vm")),
    "ray": (RAY | {"RAY_JOB_ID": "01000000"}, ("ray", 1, 1, 2), ("01000000", "h1-5000.0", "vm")),
    "ray, started before its job": (
        RAY | {"RAY_JOB_ID": "ffffffff"},
        ("ray", 1, 1, 2),
        ("h1-5000", "0", "vm"),
    ),
    "deepspeed": (DEEPSPEED, ("deepspeed", 1, 1, 2), ("h1-5000", "0", "vm")),
    "msrun": (MSRUN, ("mindspore", 3, None, 8), ("h1-8118", "0", "vm")),
    "mindspore's rank table": (RANK_TABLE, ("mindspore", 3, 3, 8), ("train.py-mindspore", "0", "vm")),
    "openmpi": (OPENMPI, ("openmpi", 3, 1, 4), ("2058813441", "0", "vm")),
    "pals": (PALS, ("pals", 9, 1, None), ("123-4-.pbs01", "f00d-1.0", "vm")),
    "flux": (FLUX, ("flux", 2, 0, 4), ("26sWM3k", "0", "vm")),
    "mpich": (MPICH, ("hydra", 1, 1, 2), ("train.py-hydra", "0", "gpu02")),
    "intel mpi": (INTEL, ("hydra", 1, 1, 2), ("bc1d-e8a1", "0", "vm")),
    "srun": (SRUN, ("slurm", 3, 1, 4), ("4711.0", "0", "gpu02")),
    "prun": (PMIX, ("pmix", 2, None, None), ("prte-h1-77-1", "0", "vm")),
    "env://": (ENV, ("env", 1, 0, 2), ("fd00-1-29501", "0", "vm")),
    "lightning": (LIGHTNING, ("lightning", 1, 1, 2), ("127.0.0.1-29502", "0", "vm")),
    "kubernetes": (POD | {"JOB_NAME": "llm"}, ("kubernetes", 2, None, None), ("llm", "0", "vm")),
    "explicit": (EXPLICIT, ("explicit", 2, 1, 4), ("mine", "0", "left")),
    "sbatch's own shell": (SBATCH_SHELL, NOBODY, ("4711", "train.py-1000.0", "gpu01")),
    "salloc's shell": (SALLOC_SHELL, NOBODY, ("4711", "train.py-1000.0", "vm")),
    "nothing": ({}, NOBODY, ("train.py-1000", "0", "vm")),
    # launchers inside launchers
    "torchrun in srun, misleading PROCID": (
        TORCHRUN | SRUN | {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "2", "GROUP_RANK": "0"},
        ("torchrun", 5, 1, 8),
        ("4711.0", "exp7.gpu01-29500.2", "gpu02"),
    ),
    "mpirun in srun --pty": (
        OPENMPI | SRUN | {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_STEP_NUM_TASKS": "1"},
        ("openmpi", 3, 1, 4),
        ("4711", "2058813441.0", "gpu02"),
    ),
    "MPICH's proxies in one step": (MPICH | SRUN, ("hydra", 1, 1, 2), ("4711.0", "0", "gpu02")),
    "srun over an exported RANK": (SRUN | ENV, ("slurm", 3, 1, 4), ("4711.0", "0", "gpu02")),
}


@pytest.mark.parametrize(("environ", "expected", "names"), RANKS.values(), ids=RANKS)
def test_rank_by_the_innermost_launcher(
    environ: dict[str, str], expected: RankNumbers, names: tuple[str, str, str]
) -> None:
    identity = who(environ)
    assert numbers(identity) == expected
    assert (identity.job, identity.run, identity.host) == names


def test_every_row_of_the_table_is_tested() -> None:
    assert {row.name for row in ROWS} <= {expected[0] for _, expected, _ in RANKS.values()}


FALLS_THROUGH: dict[str, tuple[dict[str, str], RankNumbers]] = {
    "rank is a word": (TORCHRUN | {"RANK": "x"}, NOBODY),
    "rank above world": (TORCHRUN | {"RANK": "8"}, NOBODY),
    "rank in other digits": (ENV | {"RANK": "١"}, NOBODY),
    "bad torchrun numbers in srun": (SRUN | TORCHRUN | {"RANK": "x"}, ("slurm", 3, 1, 4)),
    "sbatch's batch step": (SRUN | {"SLURM_STEP_ID": "4294967291"}, NOBODY),
    "a node that does not fit": (LIGHTNING | {"NODE_RANK": "2"}, NOBODY),
    "mindspore's scheduler": (MSRUN | {"MS_ROLE": "MS_SCHED"}, NOBODY),
    "an index outside Kubernetes": ({"JOB_COMPLETION_INDEX": "2"}, NOBODY),
    "PMIx's wildcard rank": (PMIX | {"PMIX_RANK": "4294967294"}, NOBODY),
    "local rank -1, as in a default": (ENV | {"LOCAL_RANK": "-1"}, ("env", 1, None, 2)),
}


@pytest.mark.parametrize(("environ", "expected"), FALLS_THROUGH.values(), ids=FALLS_THROUGH)
def test_row_with_bad_values_does_not_apply(environ: dict[str, str], expected: RankNumbers) -> None:
    assert numbers(who(environ)) == expected


@pytest.mark.parametrize(
    ("ancestors", "launcher"),
    [
        pytest.param((950, 900, 40, 1), "slurm", id="below the task"),
        pytest.param((800, 1), "none", id="beside the task, as in a tmux"),
        pytest.param(None, "slurm", id="unknown"),
        pytest.param((), "slurm", id="no /proc"),
        pytest.param(tuple(range(700, 684, -1)), "slurm", id="chain cut short"),
    ],
)
def test_stale_slurm_variables(ancestors: tuple[int, ...] | None, launcher: str) -> None:
    identity = who(SRUN, ancestors=ancestors)
    assert identity.launcher == launcher
    assert identity.job == ("4711.0" if launcher == "slurm" else "train.py-1000")


def test_slurms_variables_below_and_beside_a_task() -> None:
    assert who(SRUN, pid=900, ancestors=(800, 1)).launcher == "slurm", "the task itself"
    assert who(SBATCH_SHELL, ancestors=(900, 1)).job == "4711"
    assert who(SBATCH_SHELL, ancestors=(800, 1)).job == "train.py-1000"
    # mpiexec hands them to other hosts, where SLURM_TASK_PID is no ancestor: the job is that of the first host.
    assert who(INTEL | SBATCH_SHELL, ancestors=(800, 1)).job == "4711"


def test_kubernetes_job_by_the_pods_host_name() -> None:
    identity = who(POD, hostname="llm-2")
    assert (identity.job, identity.host, identity.rank) == ("llm", "llm-2", 2)


ONE_LAUNCH = {
    "torchrun on two hosts, a folder each": (
        TORCHRUN
        | {"RANK": "0", "LOCAL_RANK": "0", "TORCHELASTIC_ERROR_FILE": "/t/exp7_node1xyz/attempt_2/0/error.json"},
        TORCHRUN,
    ),
    "torchrun in two tasks of srun": (
        TORCHRUN | SRUN | {"RANK": "0", "SLURM_PROCID": "0", "SLURMD_NODENAME": "gpu01", "SLURM_TASK_PID": "77"},
        TORCHRUN | SRUN,
    ),
    "mpirun, here below sbatch and there in a step of its own": (
        OPENMPI | SBATCH_SHELL | {"OMPI_COMM_WORLD_RANK": "0"},
        OPENMPI | SRUN,
    ),
    "MPICH on two hosts": (MPICH | {"PMI_SIZE": "4"}, MPICH | {"PMI_SIZE": "4", "PMI_RANK": "3"}),
}


@pytest.mark.parametrize(("one", "other"), ONE_LAUNCH.values(), ids=ONE_LAUNCH)
def test_ranks_of_one_launch_agree(one: dict[str, str], other: dict[str, str]) -> None:
    first, second = who(one, hostname="h1", pid=11, proxy_pid=8), who(other, hostname="h2", pid=22, proxy_pid=9)
    assert (first.job, first.run) == (second.job, second.run)
    assert first.rank != second.rank


TWO_LAUNCHES = {
    "sruns in one allocation": (SRUN, SRUN | {"SLURM_STEP_ID": "1"}),
    "a job before and after its requeue": (SRUN, SRUN | {"SLURM_RESTART_COUNT": "1"}),
    "tasks of an array": (
        SRUN | {"SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": "1"},
        SRUN | {"SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": "2", "SLURM_JOB_ID": "4712"},
    ),
    "torchruns in one step, by port": (
        TORCHRUN | SRUN,
        TORCHRUN | SRUN | {"MASTER_PORT": "29501"},
    ),
    "torchruns in one step and on one endpoint, by id": (
        TORCHRUN | SRUN,
        TORCHRUN | SRUN | {"TORCHELASTIC_RUN_ID": "exp8"},
    ),
    "torchruns on one host without id or port of their own": (
        ACCELERATE,
        ACCELERATE | {"TORCHELASTIC_ERROR_FILE": "/tmp/torchelastic_w/none_zzzzzzzz/attempt_0/1/error.json"},
    ),
    "a torchrun before and after a restart": (TORCHRUN, TORCHRUN | {"TORCHELASTIC_RESTART_COUNT": "3"}),
    "mpiruns": (OPENMPI, OPENMPI | {"PMIX_NAMESPACE": "2058813442"}),
}


@pytest.mark.parametrize(("one", "other"), TWO_LAUNCHES.values(), ids=TWO_LAUNCHES)
def test_two_launches_stay_apart(one: dict[str, str], other: dict[str, str]) -> None:
    first, second = who(one), who(other)
    assert (first.job, first.run) != (second.job, second.run)


def test_launches_without_a_name_stay_apart_by_their_proxy_or_program() -> None:
    one, other = who(MPICH, pid=11, proxy_pid=8), who(MPICH | {"PMI_RANK": "0"}, pid=12, proxy_pid=8)
    assert (one.job, one.run) == (other.job, other.run)
    assert who(MPICH, proxy_pid=9).job != one.job
    one, other = who(SBATCH_SHELL, pid=11), who(SBATCH_SHELL, pid=12)
    assert one.job == other.job == "4711"
    assert one.run != other.run
