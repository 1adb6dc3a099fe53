"""The launchers: how each one is recognised, and the meaning of its variables.

Each launcher sets its own environment variables. One launcher may start another one, so a rank has the variables of all
of them. :data:`ROWS` therefore lists first the launchers that are usually started by others. The first row that applies
is used; a row with invalid numbers doesn't apply.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

# Nine digits suffice for any rank. They exclude the numbers just below 2**32, which SLURM gives to its special steps
# "batch", "extern" and "interactive".
_NUMBER = re.compile(r"[0-9]{1,9}")

_ERROR_FILE = re.compile(r"([^/]+)/attempt_[0-9]+/[0-9]+/error\.json\Z")
"""Pattern for the end of a path that torchrun sets, such as
``/tmp/torchelastic_x/none_q1w2e3r4/attempt_0/3/error.json``. Its group matches the name of a folder that each torchrun
process creates for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The properties of a process that the rows read.

    ``ancestors`` are process ids, the parent first. In a container with its own process ids ``ancestors`` is None,
    because the launcher's variables contain process ids of the host.
    ``proxy_pid`` is the nearest ancestor that is a process of Hydra. ``program`` is the script's or module's bare name.
    """

    environ: Mapping[str, str]
    pid: int
    hostname: str
    program: str
    ancestors: Sequence[int] | None
    proxy_pid: int | None

    def number(self, name: str) -> int | None:
        """Return the variable as a number, or None if it is unset or not a number."""
        text = self.environ.get(name, "")
        return int(text) if _NUMBER.fullmatch(text) else None


Source = Callable[[Process], str]


def _variables(*names: str) -> Source:
    """Return a function that joins the values of these variables; its result is empty if one of them is missing."""

    def read(process: Process) -> str:
        values = [process.environ.get(name, "") for name in names]
        # These values identify no job: torchrun sets "none" for a run without an id, and Ray "ffffffff" in a worker
        # that was started before its job was known.
        return "-".join(values) if all(values) and not {"none", "ffffffff"} & {*values} else ""

    return read


_ENDPOINT = _variables("MASTER_ADDR", "MASTER_PORT")
_NAMESPACE = _variables("PMIX_NAMESPACE")
_MINDSPORE_SCHEDULER = _variables("MS_SCHED_HOST", "MS_SCHED_PORT")


def _torchrun_agent(process: Process) -> str:
    """Return a name of this launch's torchrun process; if there are several, the endpoint that all of them share."""
    found = _ERROR_FILE.search(process.environ.get("TORCHELASTIC_ERROR_FILE", ""))
    if found and process.environ.get("GROUP_WORLD_SIZE") == "1":
        return found[1].removeprefix(process.environ.get("TORCHELASTIC_RUN_ID", "") + "_")
    return _ENDPOINT(process)


def _hydra_proxy(process: Process) -> str:
    """Return a name of MPICH's proxy process if all ranks are its children, else "".

    The variables of MPICH's ranks contain nothing else that all ranks share and that other launches don't have.
    """
    size = process.number("PMI_SIZE")
    alone = size is not None and process.number("MPI_LOCALNRANKS") == size
    return f"{short_name(process.hostname)}-{process.proxy_pid}" if alone and process.proxy_pid else ""


def _pod_job(process: Process) -> str:
    """Return the name of the Kubernetes job: the pod's host name without the index at its end."""
    return process.hostname.removesuffix("-" + process.environ["JOB_COMPLETION_INDEX"])


def _number_by_node(process: Process) -> int | None:
    """Return the global number of a rank, from the number of its host and its local number.

    The number of ranks per host is unknown. The highest one that is possible is assumed, which is right for two hosts.
    With more hosts the result is a guess, except on the first host. Once the framework is connected, it knows the
    number.
    """
    local, world = process.number("LOCAL_RANK"), process.number("WORLD_SIZE")
    node = process.number("NODE_RANK") or process.number("GROUP_RANK") or 0
    if local is None or world is None or node == 0:
        return local
    here = max((size for size in range(local + 1, world // (node + 1) + 1) if world % size == 0), default=0)
    return node * here + local if here else None


def slurm_is_ours(process: Process) -> bool:
    """Return True if this process descends from its SLURM task.

    A tmux or Jupyter may outlive the task; its processes don't belong to the task.
    """
    task = process.number("SLURM_TASK_PID")
    known = process.ancestors
    # If the chain of ancestors doesn't end at process 1, it is incomplete, and the task may be a missing ancestor.
    return task is None or not known or known[-1] != 1 or task == process.pid or task in known


def _is_slurm_task(process: Process) -> bool:
    """Return True if this is a task of srun. The shell of sbatch has a SLURM_PROCID, too, but no SLURM_STEP_ID."""
    return process.number("SLURM_STEP_ID") is not None and slurm_is_ours(process)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The rules to recognise one launcher, and the meaning of its variables.

    The row applies if all of ``needs`` are set, one of ``any_of`` is set, ``holds`` is true, and the numbers are valid.
    An empty ``any_of`` and a missing ``holds`` are ignored. ``rank`` is the variable with the rank number, and
    ``number`` a function that returns the number if no variable has it. From ``local``, ``world`` and ``job`` the first
    source that is set is used; from ``run`` all sources are used. ``in_step`` is True if all ranks are in one step of
    the scheduler. It is False, for example, for mpirun, which starts the ranks of other hosts in a separate step.
    """

    name: str
    rank: str
    number: Callable[[Process], int | None] | None = None
    local: tuple[str, ...] = ()
    world: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    holds: Callable[[Process], bool] | None = None
    job: tuple[Source, ...] = ()
    run: tuple[Source, ...] = ()
    restart: str = ""
    node: str = "SLURMD_NODENAME"
    in_step: bool = True


ROWS = (
    Row(  # also accelerate, TorchX, Kubeflow
        name="torchrun",
        needs=("TORCHELASTIC_RUN_ID", "WORLD_SIZE"),
        rank="RANK",
        local=("LOCAL_RANK",),
        world=("WORLD_SIZE",),
        job=(_variables("TORCHELASTIC_RUN_ID"), _ENDPOINT),
        run=(_variables("TORCHELASTIC_RUN_ID"), _torchrun_agent),
        restart="TORCHELASTIC_RESTART_COUNT",
    ),
    Row(
        name="ray",
        needs=("WORLD_SIZE",),
        any_of=("RAY_JOB_ID", "RAY_RAYLET_PID"),
        rank="RANK",
        local=("LOCAL_RANK",),
        world=("WORLD_SIZE",),
        job=(_variables("RAY_JOB_ID"), _ENDPOINT),
        run=(_variables("RAY_JOB_ID"), _ENDPOINT),
        in_step=False,
    ),
    Row(
        name="deepspeed",
        needs=("CROSS_RANK", "LOCAL_SIZE", "WORLD_SIZE"),
        rank="RANK",
        local=("LOCAL_RANK",),
        world=("WORLD_SIZE",),
        job=(_ENDPOINT,),
        run=(_ENDPOINT,),
    ),
    Row(
        name="mindspore",
        holds=lambda process: process.environ.get("MS_ROLE") == "MS_WORKER",
        rank="MS_NODE_ID",
        world=("MS_WORKER_NUM",),
        job=(_MINDSPORE_SCHEDULER,),
        run=(_MINDSPORE_SCHEDULER,),
    ),
    Row(  # the older method of MindSpore: a file with a table of ranks
        name="mindspore",
        needs=("RANK_TABLE_FILE", "RANK_SIZE"),
        rank="RANK_ID",
        local=("DEVICE_ID",),
        world=("RANK_SIZE",),
    ),
    Row(  # OMPI_COMM_WORLD_NODE_RANK is neither node nor local rank: it numbers the ranks of all jobs on a node
        name="openmpi",
        rank="OMPI_COMM_WORLD_RANK",
        local=("OMPI_COMM_WORLD_LOCAL_RANK",),
        world=("OMPI_COMM_WORLD_SIZE",),
        job=(_NAMESPACE,),
        run=(_NAMESPACE,),
        in_step=False,
    ),
    Row(  # Cray PALS, HPE MPT
        name="pals",
        rank="PALS_RANKID",
        local=("PALS_LOCAL_RANKID", "MPT_LRANK"),
        world=("PALS_SIZE", "SLURM_STEP_NUM_TASKS"),
        job=(_variables("PALS_APID"),),
        run=(_variables("PALS_APID"),),
    ),
    Row(
        name="flux",
        rank="FLUX_TASK_RANK",
        local=("FLUX_TASK_LOCAL_ID",),
        world=("FLUX_JOB_SIZE",),
        run=(_variables("FLUX_JOB_ID"),),
        in_step=False,
    ),
    Row(  # Intel MPI passes mpiexec's own SLURMD_NODENAME to the ranks of all hosts
        name="hydra",
        needs=("MPI_LOCALRANKID", "I_MPI_HYDRA_UUID"),
        rank="PMI_RANK",
        local=("MPI_LOCALRANKID",),
        world=("PMI_SIZE",),
        job=(_variables("I_MPI_HYDRA_UUID"),),
        run=(_variables("I_MPI_HYDRA_UUID"),),
        node="",
        in_step=False,
    ),
    Row(  # MPICH; under SLURM all its proxies are in one step
        name="hydra",
        needs=("MPI_LOCALRANKID",),
        rank="PMI_RANK",
        local=("MPI_LOCALRANKID",),
        world=("PMI_SIZE",),
        job=(_hydra_proxy,),
        run=(_hydra_proxy,),
        node="PMI_HOSTNAME",
    ),
    Row(
        name="slurm",
        holds=_is_slurm_task,
        rank="SLURM_PROCID",
        local=("SLURM_LOCALID",),
        world=("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
    ),
    Row(name="pmix", rank="PMIX_RANK", job=(_NAMESPACE,), run=(_NAMESPACE,), in_step=False),
    Row(  # variables set by hand or by a library; RANK alone proves nothing, it may be set in a user's shell
        name="env",
        needs=("WORLD_SIZE",),
        rank="RANK",
        local=("LOCAL_RANK",),
        world=("WORLD_SIZE",),
        job=(_ENDPOINT,),
        run=(_ENDPOINT,),
    ),
    Row(  # Lightning without torchrun: rank 0 starts the others of its host as separate programs
        name="lightning",
        needs=("LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        holds=lambda process: "RANK" not in process.environ,
        rank="LOCAL_RANK",
        number=_number_by_node,
        local=("LOCAL_RANK",),
        world=("WORLD_SIZE",),
        job=(_ENDPOINT,),
        run=(_ENDPOINT,),
    ),
    Row(
        name="kubernetes",
        needs=("KUBERNETES_SERVICE_HOST",),
        rank="JOB_COMPLETION_INDEX",
        job=(_variables("JOB_NAME"), _pod_job),
    ),
    Row(name="explicit", rank="DBG_RANK", world=("DBG_WORLD_SIZE",), job=(_ENDPOINT,), run=(_ENDPOINT,)),
)

FRAMEWORK = Row(
    name="framework",
    rank="",
    job=(_ENDPOINT, _MINDSPORE_SCHEDULER),
    run=(_ENDPOINT, _MINDSPORE_SCHEDULER),
)
"""The row if no launcher is known but a library has connected the process, as in ranks that a script itself has
spawned."""

NONE = Row(name="none", rank="")
"""The row without launcher and framework: a program of one process."""


@dataclass(frozen=True, slots=True)
class RankNumbers:
    """A rank's numbers; None stands for an unknown one."""

    rank: int
    local: int | None
    world: int | None


def _numbers(row: Row, process: Process) -> RankNumbers | None:
    """Return the rank's numbers by this row, or None if the row doesn't apply."""
    environ = process.environ
    rank = row.number(process) if row.number is not None else process.number(row.rank)
    if rank is None or not all(environ.get(name) for name in row.needs):
        return None
    if row.any_of and not any(environ.get(name) for name in row.any_of):
        return None
    if row.holds is not None and not row.holds(process):
        return None
    local = next((process.number(name) for name in row.local if environ.get(name)), None)
    named = next((name for name in row.world if environ.get(name)), None)
    world = process.number(named) if named is not None else None
    if named is not None and (world is None or rank >= world):
        return None
    return RankNumbers(rank, local, world)


def detect(process: Process, framework: tuple[int, int] | None) -> tuple[Row, RankNumbers]:
    """Return the row of the innermost launcher and its numbers.

    Without a launcher the row is :data:`FRAMEWORK` if a framework knows the rank, else :data:`NONE`, and the numbers
    are rank 0 of 1.
    """
    for row in ROWS:
        numbers = _numbers(row, process)
        if numbers is not None:
            return row, numbers
    return (NONE if framework is None else FRAMEWORK), RankNumbers(0, 0, 1)


def short_name(host: str) -> str:
    """Return the host's name without its domain; an address stays whole."""
    return host if re.fullmatch(r"[0-9.]*", host) else host.partition(".")[0]
