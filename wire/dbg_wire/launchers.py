"""What tells launchers and ranks of a job apart, by command line and variables. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_LAUNCHER_COMMANDS = frozenset(
    {
        *("torchrun", "torchx", "accelerate", "accelerate-launch", "deepspeed", "ds", "ray", "raylet"),
        *("fabric", "lightning", "composer", "colossalai", "horovodrun", "msrun", "jsrun", "prun", "prterun"),
        *("mpirun", "mpiexec", "mpiexec.hydra", "mpirun_rsh", "orterun"),
    }
)
"""Commands that start ranks. Some are no Python programs, but are often replaced by a wrapper in Python."""

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
    # Not all of Ray's modules: a rank of Ray Train runs inside ray._private.workers.default_worker.
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
"""The variables in which launchers tell a process its rank, the innermost launcher's first.

The value is the variable without which the number means nothing, empty where there is none.
"""


def is_launcher(argv: Sequence[str], module: str | None, environ: Mapping[str, str] | None = None) -> bool:
    """Say whether a process of this command line only starts or serves ranks, and so must never register.

    ``module`` is what ``python -m`` runs. MindSpore's scheduler runs the same command as its ranks and is recognised
    only with ``environ``.
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
