"""The environment variables by which two ranks of a job may differ without anybody meaning it.

Values of variables of the field are told as they are. Of any other variable a short digest is told, keyed by the token
of the job's ranks: equal values have equal digests in all ranks, and somebody who may only watch, and so does not have
that token, can't try values out. A variable whose name sounds like a secret is left out, and so is one that belongs to
one rank, host or shell.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from dbg_agent.launch.launchers import ROWS
from dbg_agent.process.log import keyed_digest
from dbg_wire.errors import printable

MAX_VALUE = 1000
"""Characters of a value."""

_SECRET = re.compile(
    r"TOKEN|KEY|SECRET|PASS|PWD|CRED|AUTH|COOKIE|SESSION|PRIVATE|SIGNATURE|BEARER|SALT|DSN", re.IGNORECASE
)

_SHOWN = (
    *(
        "NCCL_",
        "RCCL_",
        "HCCL_",
        "GLOO_",
        "TORCH_",
        "TORCHINDUCTOR_",
        "PYTORCH_",
        "TRITON_",
        "CUDA_",
        "CUBLAS_",
        "CUDNN_",
    ),
    *("NVIDIA_", "NVTE_", "HIP_", "ROCM_", "HSA_", "MIOPEN_", "ASCEND_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_"),
    *(
        "UCX_",
        "FI_",
        "MPICH_",
        "OMPI_MCA_",
        "I_MPI_",
        "MV2_",
        "HF_",
        "TRANSFORMERS_",
        "TOKENIZERS_",
        "DS_",
        "XLA_",
        "JAX_",
    ),
    *("TF_", "PYTHON", "LD_", "MALLOC_", "GLIBC_", "NUMEXPR_", "NUMBA_", "MASTER_", "VIRTUAL_ENV", "CONDA_"),
)
"""Beginnings of the names of variables that change how a training runs."""

_SHOWN_NAMES = frozenset({"PATH", "WORLD_SIZE", "LANG", "LC_ALL", "TZ"})

_LEFT_OUT = (
    *(
        "DBG_",
        "SLURM",
        "SRUN_",
        "SBATCH_",
        "PMI_",
        "PMIX_",
        "PALS_",
        "OMPI_COMM_",
        "OMPI_MCA_ess_",
        "OMPI_MCA_orte_",
        "OMPI_FIRST_",
        "OMPI_FILE_",
        "OPAL_",
    ),
    *("PRTE_", "ORTE_", "JSM_", "FLUX_", "HYDRA", "MPI_", "MV2_COMM_", "I_MPI_HYDRA", "TORCHELASTIC_", "RAY_", "XDG_"),
    *("SSH_", "TERM", "TMUX", "STY", "GPG_", "DBUS_", "JOURNAL_", "INVOCATION_", "MODULE", "LMOD_", "_"),
    *("BASH_", "VSCODE_"),
)
"""Beginnings of the names of variables of a launcher, a host or a shell."""

_LEFT_OUT_NAMES = frozenset(
    {
        *("HOSTNAME", "HOST", "TMPDIR", "TMP", "TEMP", "PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES", "DISPLAY", "PS1"),
        *("LOGNAME", "MAIL", "ROLE_NAME", "GROUP_WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"),
        *(
            "POD_NAME",
            "POD_IP",
            "NODE_NAME",
            "NODE_IP",
            "CUDA_VISIBLE_DEVICES",
            "NVIDIA_VISIBLE_DEVICES",
            "HIP_VISIBLE_DEVICES",
        ),
        *("ROCR_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "GPU_DEVICE_ORDINAL"),
        *("GOMP_CPU_AFFINITY", "KMP_AFFINITY", "FLUX_URI"),
        *(name for row in ROWS for name in (row.rank, *row.local, row.restart, row.node) if name),
    }
)
"""Variables that differ between the ranks of a job by nature."""

_OF_RANK = re.compile(r"(^|_)(RANK|RANKID|LOCALID|PROCID|NODEID|PID|HOSTNAME|ADDRESS|IP)$")


def variables_told(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the names of variables, in order, with their values or digests."""
    for name in sorted(environ):
        if name in _LEFT_OUT_NAMES or name.startswith(_LEFT_OUT) or _OF_RANK.search(name) or _SECRET.search(name):
            continue
        value = environ[name]
        # An address may hold a password.
        if (name.startswith(_SHOWN) or name in _SHOWN_NAMES) and not re.search(r"://[^/]*@", value):
            yield printable(name), printable(value, MAX_VALUE)
        else:
            yield printable(name), keyed_digest(value)


def environment() -> dict[str, str]:
    """Return the variables of this process now; empty if another thread changes them all the time."""
    for _ in range(3):
        try:
            return dict(os.environ)
        except RuntimeError:
            continue
    return {}
