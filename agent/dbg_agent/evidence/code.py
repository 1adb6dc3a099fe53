"""What code this process runs: digests of its files, packages and environment, in which ranks of a job may differ.

A thread of its own reads the files, since a file system may hang, and nobody waits for it for long. Values of variables
of the field are told as they are. Of any other variable a short digest is told, keyed by the token of the job's ranks:
equal values have equal digests in all ranks, and somebody who may only watch, and so does not have that token, can't
try values out. A variable whose name sounds like a secret is left out, and so is one of a single rank, host or shell.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from dbg_agent.launch.launchers import ROWS
from dbg_agent.process.log import keyed_digest
from dbg_agent.process.threads import own_thread
from dbg_agent.stop.loaded_sources import file_of, is_edited, process_started, read_file
from dbg_agent.stop.stacks import is_users_file
from dbg_wire.errors import printable
from dbg_wire.records.evidence import MAX_CODE_ROWS, CodeKind, CodePart, CodeSeen
from dbg_wire.records.record import fitted

WAIT_SECONDS = 0.3
"""Seconds that a look waits for the reading: hundreds of files take some 30 ms on a disk."""

MAX_FILES = 1000
MAX_FILE_BYTES = 4_000_000
MAX_BYTES = 64_000_000
"""Files that are read, bytes of one, and bytes of all: no user's program has more of its own."""

MAX_COMPILED = 100_000
"""Bytes of edited files that one look compiles, which holds the interpreter for some 50 ms."""

MAX_PACKAGES = 1000
MAX_ENTRIES = 20_000
"""Packages that are told, and entries of folders that are looked through for them."""

EDITED = "edited since it was loaded"
CHANGED = "changed since the process began"

_PACKAGE = re.compile(r"(.+?)-([0-9][^-]*)(?:-py[0-9.]+)?\.(?:dist|egg)-info")

MAX_VARIABLE = 1000
"""Characters of a value."""

_SHOWN = (
    *("NCCL_", "RCCL_", "HCCL_", "GLOO_", "TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "TRITON_", "CUDA_", "CUBLAS_"),
    *("CUDNN_", "NVIDIA_", "NVTE_", "HIP_", "ROCM_", "HSA_", "MIOPEN_", "ASCEND_", "OMP_", "GOMP_", "KMP_"),
    *("MKL_", "OPENBLAS_", "UCX_", "FI_", "MPICH_", "OMPI_MCA_", "I_MPI_", "MV2_", "HF_", "TRANSFORMERS_"),
    *("TOKENIZERS_", "DS_", "XLA_", "JAX_", "TF_", "PYTHON", "LD_", "MALLOC_", "GLIBC_", "NUMEXPR_", "NUMBA_"),
    *("MASTER_", "VIRTUAL_ENV", "CONDA_"),
)
"""Beginnings of the names of variables that change how a training runs."""

_LEFT_OUT = (
    *("DBG_", "SLURM", "SRUN_", "SBATCH_", "PMI_", "PMIX_", "PALS_", "OMPI_COMM_", "OMPI_MCA_ess_"),
    *("OMPI_MCA_orte_", "OMPI_FIRST_", "OMPI_FILE_", "OPAL_", "PRTE_", "ORTE_", "JSM_", "FLUX_", "HYDRA", "MPI_"),
    *("MV2_COMM_", "I_MPI_HYDRA", "TORCHELASTIC_", "RAY_", "XDG_", "SSH_", "TERM", "TMUX", "STY", "GPG_"),
    *("DBUS_", "JOURNAL_", "INVOCATION_", "MODULE", "LMOD_", "_", "BASH_", "VSCODE_"),
)
"""Beginnings of the names of variables of a launcher, a host or a shell."""


class CodeFiles:
    """The files and packages of this process, read anew where they have changed; for the link's thread."""

    def __init__(self) -> None:
        self._digests: dict[str, tuple[tuple[int, int], str]] = {}
        """What is known of a file, by its path, with the time and size that it had."""
        self._started = process_started()
        self._reading: threading.Thread | None = None
        self._told: tuple[dict[str, str], dict[str, str]] | None = None

    def read(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the digests of files and the versions of packages; nothing if reading takes too long, for now."""
        if self._reading is None or not self._reading.is_alive():
            self._told = None
            self._reading = own_thread(self._read, "dbg-agent-code")
            try:
                self._reading.start()
            except RuntimeError:
                self._reading = None
                return {}, {}
        self._reading.join(WAIT_SECONDS)
        return self._told or ({}, {})

    def _read(self) -> None:
        # No fault of a reading may be printed into the job's output.
        with suppress(Exception):
            self._told = self._files(), packages(list(sys.path))

    def _files(self) -> dict[str, str]:
        found: dict[str, str] = {}
        left, to_compile = MAX_BYTES, MAX_COMPILED
        for name, path in sorted(own_files().items())[:MAX_FILES]:
            try:
                status = os.stat(path)  # noqa: PTH116 - no pathlib in a rank
            except (OSError, ValueError):
                found[name] = "is gone"
                continue
            mark = status.st_mtime_ns, status.st_size
            known = self._digests.get(path)
            if known is None or known[0] != mark:
                content = read_file(path, MAX_FILE_BYTES) if status.st_size <= min(left, MAX_FILE_BYTES) else None
                source = content[0] if content is not None else b""
                left -= len(source)
                changed = max(status.st_mtime, status.st_ctime) > self._started
                is_compiled = changed and len(source) <= to_compile
                to_compile -= len(source) if is_compiled else 0
                known = self._digests[path] = mark, _digest_told(path, source, changed, is_compiled)
            found[name] = known[1]
        return found


def _digest_told(path: str, source: bytes, changed: bool, is_compiled: bool) -> str:
    digest = hashlib.blake2b(source, digest_size=8).hexdigest()
    if is_compiled:
        with suppress(Exception):
            return f"{digest} ({EDITED})" if is_edited(path, source) else digest
    return f"{digest} ({CHANGED})" if changed else digest


def own_files() -> dict[str, str]:
    """Return the paths of the loaded files of the user's own code, by names that are equal on all hosts."""
    found: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        path = file_of(module)
        if path is not None and is_users_file(path) and type(name) is str and not name.startswith("dbg_"):
            found.setdefault(short_name(name, path), path)
    return found


def short_name(module: str, path: str) -> str:
    """Return the end of a module's path that its name says: ``model/layers.py`` of ``model.layers``."""
    parts = path.split("/")
    count = 1 if module == "__main__" else module.count(".") + 1 + (parts[-1] == "__init__.py")
    return "/".join(parts[-count:])


def packages(path: list[str]) -> dict[str, str]:
    """Return the versions of the packages that the folders of a path have, by name, as the names of files tell them."""
    found: dict[str, str] = {}
    left = MAX_ENTRIES
    for folder in path:
        for entry in _entries(folder, left):
            left -= 1
            match = _PACKAGE.fullmatch(entry)
            if match is not None and len(found) < MAX_PACKAGES:
                # As Python does, the first folder with the package counts.
                found.setdefault(re.sub(r"[-_.]+", "-", match[1]).lower(), match[2])
    return found


def _entries(folder: str, most: int) -> Iterator[str]:
    with suppress(OSError, ValueError, TypeError), os.scandir(folder) as entries:
        for _, entry in zip(range(most), entries, strict=False):
            yield entry.name


_SECRET = re.compile(
    r"TOKEN|KEY|SECRET|PASS|PWD|CRED|AUTH|COOKIE|SESSION|PRIVATE|SIGNATURE|BEARER|SALT|DSN", re.IGNORECASE
)


_SHOWN_NAMES = frozenset({"PATH", "WORLD_SIZE", "LANG", "LC_ALL", "TZ"})


_LEFT_OUT_NAMES = frozenset(
    {
        *("HOSTNAME", "HOST", "TMPDIR", "TMP", "TEMP", "PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES", "DISPLAY", "PS1"),
        *("LOGNAME", "MAIL", "ROLE_NAME", "GROUP_WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"),
        *("POD_NAME", "POD_IP", "NODE_NAME", "NODE_IP"),
        *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
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
            yield printable(name), printable(value, MAX_VARIABLE)
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


_files = CodeFiles()
"""What was read already: files that have not changed since are not read again."""


def code_seen() -> CodeSeen:
    """Return one digest for the files, one for the packages, and one for the environment; for the link's thread.

    The digests of files and packages are empty while they are being read: a file system may hang.
    """
    files, packages = _files.read()
    return fitted(
        CodeSeen,
        files=_digest(files.items()),
        packages=_digest(packages.items()),
        environment=_digest(variables_told(environment())),
    )


def code_parts() -> list[CodePart]:
    """Return the files, packages and variables behind the digests, at most MAX_CODE_ROWS; for the link's thread."""
    files, packages = _files.read()
    parts: list[tuple[CodeKind, Iterable[tuple[str, str]]]] = [
        (CodeKind.FILE, sorted(files.items())),
        (CodeKind.VARIABLE, variables_told(environment())),
        (CodeKind.PACKAGE, sorted(packages.items())),
    ]
    found = [
        fitted(CodePart, kind=kind, name=printable(name), value=value) for kind, rows in parts for name, value in rows
    ]
    return found[:MAX_CODE_ROWS]


def _digest(parts: Iterable[tuple[str, str]]) -> str:
    text = "\0".join(f"{name}\0{value}" for name, value in sorted(parts))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest() if text else ""
