"""The identity of this process as a rank, by its launcher and its framework.

``DBG_RANK``, ``DBG_LOCAL_RANK``, ``DBG_WORLD_SIZE``, ``DBG_JOB`` and ``DBG_HOST`` override single fields. The framework
overrides the numbers of the launcher.

All ranks of one launch, on all hosts, must find the same ``job`` and ``run``, and the ranks of two launches must find
different ones. They do not communicate, so both names are made only of values that the launcher sets in every rank.
"""

from __future__ import annotations

import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dbg_agent.host.proc import stat_of
from dbg_agent.launch.claim import NO_PLACE, VARIABLE, JobPart, claim_in
from dbg_agent.launch.launchers import FRAMEWORK, NONE, Process, RankNumbers, Row, detect, short_name, slurm_is_ours

MAX_ANCESTORS = 16
"""Maximum number of a rank's ancestors that are read. Between a launcher and its rank there are fewer processes, such
as shells and containers."""

ANCESTRY_SECONDS = 1.0
"""Maximum time in seconds for which the program waits while the ancestors are read. Normally this takes a millisecond,
but ``/proc`` may also block forever."""

_FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""Inode of the first process-id namespace: PROC_PID_INIT_INO of Linux."""

MAX_NAME = 100
"""Maximum number of characters of a job, run or host: names of DNS and schedulers are shorter, and a list of ranks
stays readable."""

MAX_PATH = 4096
"""Maximum number of characters of the path of a script or directory: PATH_MAX."""

_HYDRA_PROXY = "hydra_pmi_proxy"
"""The name of MPICH's process that starts the ranks of one host."""


def ancestors(pid: int) -> tuple[int, ...]:
    """Return the process ids above ``pid``, the parent first, at most :data:`MAX_ANCESTORS`.

    The result ends early at a process that ``/proc`` doesn't show. May be called from any thread; never raises.
    """
    return tuple(ancestor for ancestor, _ in processes_above(pid))


KNOWN_ABOVE: dict[int, list[tuple[int, str]]] = {}
"""The results of :func:`remembered_above`, by process id."""


def remembered_above(pid: int) -> list[tuple[int, str]]:
    """Return the ancestors of this process, which :func:`processes_above` reads only once.

    Reading another process in ``/proc`` may block. If it takes longer than a second, the result is empty.
    """
    if pid not in KNOWN_ABOVE:
        from dbg_agent.process.threads import within

        KNOWN_ABOVE[pid] = within(ANCESTRY_SECONDS, lambda: list(processes_above(pid)), [])
    return KNOWN_ABOVE[pid]


def processes_above(pid: int) -> Iterator[tuple[int, str]]:
    """Yield the process id and name of each ancestor, the parent first."""
    parent = parent_and_name(pid)[0]
    for _ in range(MAX_ANCESTORS):
        if parent <= 0:
            return
        current, (parent, name) = parent, parent_and_name(parent)
        yield current, name


def parent_and_name(pid: int) -> tuple[int, str]:
    """Return the parent and the name of a process; 0 and "" if they can't be read."""
    name, fields = stat_of(pid)
    return int(fields[1]) if len(fields) > 1 else 0, name


def sees_all_processes() -> bool:
    """Return True if process ids here are the host's, as in a launcher's variables, and not those of a container."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino == _FIRST_PID_NAMESPACE  # noqa: PTH116
    except OSError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of a process in its job.

    ``job``, ``run`` and ``host`` are made of ``[A-Za-z0-9._-]`` and never empty. ``script`` is a path, absolute if the
    directory is known, or ``-m module``, ``-c``, or ``-`` for standard input. None stands for an
    unknown number.
    """

    job: str
    run: str
    host: str
    rank: int
    local_rank: int | None
    world_size: int | None
    launcher: str
    pid: int
    script: str
    directory: str
    by_library: bool = False
    """Whether the rank's number is known from a library that has connected this process."""

    @property
    def key(self) -> str:
        """The identity as one opaque string.

        It changes only if the launcher's variables or the rank's numbers change.
        """
        return f"{self.job}/{self.run}/{self.host}:{self.rank}/{self.pid}"


def identify(
    environ: Mapping[str, str],
    *,
    argv: Sequence[str],
    executable_module: str | None,
    pid: int,
    hostname: str,
    directory: str,
    framework: tuple[int, int] | None = None,
    ancestors: Sequence[int] | None = None,
    proxy_pid: int | None = None,
) -> Identity:
    """Return the identity of a process with these properties; pure, and no value makes it raise.

    ``executable_module`` is the module that ``python -m`` runs, ``framework`` a (rank, world size) from
    :func:`framework_rank`. ``ancestors`` are process ids, the parent first, or None if they can't be compared with the
    process id in SLURM's variables. ``proxy_pid`` is the nearest ancestor that is MPICH's proxy.
    """
    script = _script(argv, executable_module, directory)
    process = Process(
        environ=environ,
        pid=pid,
        hostname=hostname,
        program=_program(script),
        ancestors=ancestors,
        proxy_pid=proxy_pid,
    )
    row, numbers = detect(process, framework)
    is_child = claim_in(environ.get(VARIABLE, ""))[0] not in (None, pid)
    if framework is not None and is_child and framework[1] < (numbers.world or 0) + ("WORLD_SIZE" in environ):
        # The framework connects at most as many processes as the job has ranks. So this child of a rank is assumed to
        # be connected only to other children of that rank, as in a rank's inference engine. The framework's number is
        # then not a number in the job.
        framework = None
    numbers = _overridden(_corrected(numbers, framework, process), process)
    job, run = _job_and_run(row, process)
    return Identity(
        job=job,
        run=run,
        host=_host(row, process),
        rank=numbers.rank,
        local_rank=numbers.local,
        world_size=numbers.world,
        launcher=row.name,
        pid=pid,
        script=_sendable(script),
        directory=_sendable(directory),
        by_library=framework is not None,
    )


def this_process() -> Identity:
    """Return the present identity of this process.

    The result may change once a framework is connected: it knows the rank even if no launcher has started the process.
    May be called from any thread; never raises, and blocks for at most :data:`ANCESTRY_SECONDS`.
    """
    pid = os.getpid()
    argv, module = _command()
    # The ancestors are needed only under SLURM and Hydra, which set one of these two variables each.
    chain = remembered_above(pid) if {"SLURM_TASK_PID", "MPI_LOCALNRANKS"} & os.environ.keys() else []
    return identify(
        os.environ,
        argv=argv,
        executable_module=module,
        pid=pid,
        hostname=os.uname().nodename,
        directory=_directory(),
        framework=framework_rank(sys.modules),
        ancestors=[ancestor for ancestor, _ in chain] if sees_all_processes() else None,
        proxy_pid=next((ancestor for ancestor, name in chain if name == _HYDRA_PROXY), None),
    )


def claim() -> None:
    """Mark this process as the rank for all its later children; runs in the program's thread.

    The claim contains the present place. It is made again when a framework has changed the place since the previous
    claim.
    """
    claimed = f"{JobPart.RANK.value}:{os.getpid()}:{place_text(own_place())}"
    if os.environ.get(VARIABLE) != claimed:
        os.environ[VARIABLE] = claimed


def own_place() -> str:
    """Return the place of this process: launcher, run and rank number, or NO_PLACE without a launcher.

    Two processes have the same place only if one of them has started the other.
    """
    me = this_process()
    return NO_PLACE if me.launcher in (NONE.name, FRAMEWORK.name) else f"{me.launcher}/{me.run}/{me.rank}"


def place_text(place: str) -> str:
    """Return a place in the form that children inherit.

    Without a launcher this form also contains job, run and rank, because no variable that the children inherit has
    them.
    """
    if place != NO_PLACE:
        return place
    me = this_process()
    return f"{place}:{me.job}/{me.run}/{me.rank}"


def framework_rank(modules: Mapping[str, object]) -> tuple[int, int] | None:
    """Return (rank, world size) from a framework that is imported and connected, else None.

    Read only ``modules`` (:data:`sys.modules`), import nothing, and send nothing to other ranks. Never raise, even if a
    module does. A world of one is ignored: MPI reports it in every process that mpirun didn't start.
    """
    for name, ask in _FRAMEWORKS:
        module = modules.get(name)
        answer = None if module is None else _asked(ask, module)
        if answer is None:
            continue
        rank, world = answer
        if type(rank) is int and type(world) is int and world > 1 and 0 <= rank < world:
            return rank, world
    return None


def _asked(ask: Callable[[Any], tuple[Any, Any] | None], module: object) -> tuple[Any, Any] | None:
    try:
        return ask(module)
    except Exception:  # the module is half imported, a mock, or another version; the user sees no error
        return None


def _ask_torch(distributed: Any) -> tuple[Any, Any] | None:
    if not (distributed.is_available() and distributed.is_initialized()):
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _ask_mpi(mpi: Any) -> tuple[Any, Any] | None:
    # MPI ends the process if it is called before its initialisation or after its end.
    if not mpi.Is_initialized() or mpi.Is_finalized():
        return None
    return mpi.COMM_WORLD.Get_rank(), mpi.COMM_WORLD.Get_size()


def _ask_jax(distributed: Any) -> tuple[Any, Any] | None:
    # jax.process_index() is not called, because it would start the devices. Its result is the same as this state once
    # jax.distributed is initialized.
    state = distributed.global_state
    return None if state.client is None else (state.process_id, state.num_processes)


def _ask_mindspore(communication: Any) -> tuple[Any, Any] | None:
    return communication.get_rank(), communication.get_group_size()


_FRAMEWORKS: tuple[tuple[str, Callable[[Any], tuple[Any, Any] | None]], ...] = (
    ("torch.distributed", _ask_torch),
    ("mpi4py.MPI", _ask_mpi),
    ("jax._src.distributed", _ask_jax),
    ("mindspore.communication", _ask_mindspore),
)


def _corrected(numbers: RankNumbers, framework: tuple[int, int] | None, process: Process) -> RankNumbers:
    if framework is None:
        return numbers
    rank, world = framework
    if rank == numbers.rank:
        return replace(numbers, world=world)
    return RankNumbers(rank, process.number("LOCAL_RANK"), world)


def _overridden(numbers: RankNumbers, process: Process) -> RankNumbers:
    rank, world, local = (process.number(name) for name in ("DBG_RANK", "DBG_WORLD_SIZE", "DBG_LOCAL_RANK"))
    if local is not None:
        numbers = replace(numbers, local=local)
    if rank is None:
        fits = world is not None and numbers.rank < world
        return replace(numbers, world=world) if fits else numbers
    if world is None:
        fits = numbers.world is not None and rank < numbers.world
        return replace(numbers, rank=rank, world=numbers.world if fits else None)
    return replace(numbers, rank=rank, world=world) if rank < world else numbers


def _job_and_run(row: Row, process: Process) -> tuple[str, str]:
    scheduler = _reduced(_scheduler_job(row, process))
    explicit = _reduced(process.environ.get("DBG_JOB", ""))
    # All ranks of a launch must find the same name, but have different process ids. So only a process without a
    # launcher is named by its process id.
    unique = _reduced(f"{process.program}-{process.pid if row is NONE else row.name}")
    own = next((name for name in (_reduced(source(process)) for source in row.job) if name), unique)
    job = explicit or scheduler or own
    parts = [_reduced(source(process)) for source in row.run]
    if row is NONE:
        parts.append(unique)
    if row.in_step and scheduler:
        # The run's name gets the step, because a job name that the user has chosen lacks the step. The run's name also
        # gets the number of requeues, because no job name contains this number.
        parts = [scheduler, *parts, f"requeue{process.number('SLURM_RESTART_COUNT') or 0}"]
    shown_parts = [part for part in dict.fromkeys(parts) if part not in ("", "requeue0", job)]
    return job, _reduced(".".join([*shown_parts, str(process.number(row.restart) or 0)]))


def _scheduler_job(row: Row, process: Process) -> str:
    environ = process.environ
    slurm = environ.get("SLURM_JOB_ID", "")
    # Without a launcher only the process's ancestors show whether it still belongs to the SLURM job.
    if slurm and (row not in (NONE, FRAMEWORK) or slurm_is_ours(process)):
        task = environ.get("SLURM_ARRAY_TASK_ID", "")
        job = f"{environ.get('SLURM_ARRAY_JOB_ID') or slurm}_{task}" if task else slurm
        step = process.number("SLURM_STEP_ID") if row.in_step else None
        return job if step is None else f"{job}.{step}"
    if lsf := environ.get("LSB_JOBID", ""):
        index = process.number("LSB_JOBINDEX")
        return f"{lsf}.{index}" if index else lsf
    return environ.get("FLUX_JOB_ID") or environ.get("PBS_JOBID") or ""


def _host(row: Row, process: Process) -> str:
    node = process.environ.get(row.node, "")
    names = (process.environ.get("DBG_HOST", ""), short_name(node), short_name(process.hostname))
    return next((name for name in map(_reduced, names) if name), "unknown")


def _script(argv: Sequence[str], module: str | None, directory: str) -> str:
    # With `python -m dbg_agent`, the program is not this module, but the script that the module runs.
    if module and module.partition(".")[0] != "dbg_agent":
        return f"-m {module.removesuffix('.__main__')}"
    program = argv[0] if argv else ""
    if program in ("", "-", "-c", "-m"):
        return program or "-"
    if program.startswith("/") or not directory:
        return program
    return os.path.normpath(f"{directory}/{program}")


def _program(script: str) -> str:
    name = script.removeprefix("-m ").rpartition("/")[2]
    return "python" if name in ("", "-", "-c", "-m") else name


def _reduced(name: str) -> str:
    """Return the name in the characters that a target may have, or "" if none is left.

    A run of other characters becomes one ``-``. A ``-`` at either end is removed, because a name that begins with ``-``
    would be read as an option of a command.
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-")
    if len(name) <= MAX_NAME:
        return name
    # A truncated name ends with a checksum of the whole name, because long ids often differ only at their ends.
    return f"{name[: MAX_NAME - 9]}-{zlib.crc32(name.encode()):08x}"


def _sendable(path: str) -> str:
    """Return the path as text that can be sent, with the undecodable bytes of a file name replaced.

    Python represents these bytes as lone surrogates, which can't be encoded.
    """
    return path.encode("utf-8", "replace").decode("utf-8")[:MAX_PATH]


def _command() -> tuple[list[str], str | None]:
    """Return this process's arguments, the script's path first, and the module that ``python -m`` runs."""
    main = sys.modules.get("__main__")
    argv = [str(argument) for argument in getattr(sys, "argv", [])]
    module = getattr(getattr(main, "__spec__", None), "name", None)
    if module == "__main__":  # a folder or an archive, named by argv[0]
        return argv, None
    if module is None and argv[:1] == ["-m"]:  # the interpreter is still starting
        return argv, started_module(argv, sys.orig_argv)
    if module is None and isinstance(file := getattr(main, "__file__", None), str):
        # argv[0] may be relative, and name another file once the program has changed its directory.
        argv[:1] = [file]
    return argv, module


def started_module(argv: Sequence[str], original: Sequence[str]) -> str | None:
    """Return the module of ``python -m`` while Python is looking for the module: ``argv`` then begins with ``-m``."""
    index = len(original) - len(argv)
    name = original[index] if 0 < index < len(original) else ""
    # `-m name`, or as one word, perhaps after other letters: `-umname`.
    return (name.partition("m")[2] if name.startswith("-") else name) or None


def _directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - pathlib would be loaded into every rank
    except OSError:  # the directory was removed
        return ""
