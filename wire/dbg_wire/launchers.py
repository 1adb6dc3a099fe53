"""Rules that distinguish launchers from ranks, by command line and environment variables. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_LAUNCHER_COMMANDS = frozenset(
    {
        *("torchrun", "torchx", "accelerate", "accelerate-launch", "deepspeed", "ds", "ray", "raylet"),
        *("fabric", "lightning", "composer", "colossalai", "horovodrun", "msrun", "jsrun", "prun", "prterun"),
        *("mpirun", "mpiexec", "mpiexec.hydra", "mpirun_rsh", "orterun"),
    }
)
"""Commands that start ranks. Some are not Python programs, but often a Python wrapper replaces them."""

_LAUNCHER_MODULES = (
    "torch.distributed.run",
    "torch.distributed.launch",
    "torchx.cli",
    "accelerate.commands",
    "deepspeed.launcher",
    "lightning.fabric.cli",
    "lightning_fabric.cli",
    "composer.cli",
    "colossalai.cli",
    "horovod.runner.launch",
    "mindspore.parallel.cluster",
    # Not all modules of Ray: a rank of Ray Train runs inside ray._private.workers.default_worker.
    "ray.scripts",
    "ray.dashboard",
    "ray.autoscaler",
    "ray.util.client.server",
    "ray._private.log_monitor",
    "ray._private.runtime_env",
    "ray._private.workers.setup_worker",
)
"""Modules and packages that start ranks or serve them."""

RANK_VARIABLES = {
    "RANK": "WORLD_SIZE",
    "MS_NODE_ID": "MS_WORKER_NUM",
    "RANK_ID": "RANK_SIZE",
    "OMPI_COMM_WORLD_RANK": "",
    "PALS_RANKID": "",
    "FLUX_TASK_RANK": "",
    "PMI_RANK": "",
    "SLURM_PROCID": "SLURM_STEP_ID",
    "PMIX_RANK": "",
    "LOCAL_RANK": "MASTER_ADDR",
    "JOB_COMPLETION_INDEX": "KUBERNETES_SERVICE_HOST",
    "DBG_RANK": "",
}
"""Variables in which launchers pass the rank number to a process. Innermost launchers come first.

Each key is such a variable. Its value is another variable: the number is valid only if both are set. An empty value
means that no other variable is needed.
"""


def is_launcher(argv: Sequence[str], module: str | None, environ: Mapping[str, str] | None = None) -> bool:
    """Return True if a process with this command line only starts or serves ranks, so it must never register.

    ``module`` is the module that ``python -m`` runs. MindSpore's scheduler has the same command line as its ranks, so
    it is recognised only with ``environ``.
    """
    if environ is not None and environ.get("MS_ROLE") == "MS_SCHED":
        return True
    program = argv[0] if argv else ""
    if program.rpartition("/")[2] in _LAUNCHER_COMMANDS:
        return True
    # Ray and DeepSpeed run some of their modules by path.
    dotted = f".{program.removesuffix('.py').replace('/', '.')}."
    return any(
        f"{module or ''}.".startswith(f"{launcher}.") or f".{launcher}." in dotted for launcher in _LAUNCHER_MODULES
    )
