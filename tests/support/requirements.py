"""Marks for tests that need certain programs or rights; a skipped test names what is missing."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

NETNS_COMMANDS = ("ip", "nsenter", "unshare", "mount", "hostname")
SLURM_COMMANDS = ("munged", "munge", "slurmctld", "slurmd", "srun", "sinfo", "sbatch", "scancel", "scontrol")
SILENT_HOME_COMMANDS = ("unshare", "nsenter")
FUSE = Path("/dev/fuse")

DEBIAN_REMEDY = "`scripts/install-system-packages` installs it as root"

SYSTEM_PATH = "/usr/sbin:/sbin:/usr/local/sbin"
"""Folders in which daemons are installed; an ordinary user's PATH may lack them."""


def find_command(name: str) -> str | None:
    """Return the path of a command on PATH or among the system's daemons."""
    return shutil.which(name) or shutil.which(name, path=SYSTEM_PATH)


def missing_for(commands: tuple[str, ...], *, as_root: bool) -> str | None:
    """Say in one sentence why ``commands`` can't be used here, or return None if they can."""
    absent = [name for name in commands if find_command(name) is None]
    if absent:
        return f"{', '.join(absent)} not installed; {DEBIAN_REMEDY}"
    if as_root and os.geteuid() != 0:
        return f"{commands[0]} needs root"
    return None


def missing_for_slurm() -> str | None:
    """Say why an emulated SLURM can't run here, or return None."""
    return missing_for(SLURM_COMMANDS, as_root=True)


def missing_for_netns() -> str | None:
    """Say why hosts as network namespaces can't be made here, or return None."""
    return missing_for(NETNS_COMMANDS, as_root=True)


def missing_for_silent_home() -> str | None:
    """Say why no home can be silent here, or return None."""
    return missing_for(SILENT_HOME_COMMANDS, as_root=True) or (None if FUSE.exists() else f"this host has no {FUSE}")


def _needs(*commands: str) -> pytest.MarkDecorator:
    missing = missing_for(commands, as_root=False)
    return pytest.mark.skipif(missing is not None, reason=missing or "")


needs_torch = pytest.mark.skipif(
    find_spec("torch") is None, reason="torch not installed; `make torch WITH_TORCH=1` installs it"
)


def _needs_framework(name: str) -> pytest.MarkDecorator:
    reason = f"{name} not installed; `make frameworks` installs it"
    return pytest.mark.skipif(find_spec(name) is None, reason=reason)


needs_jax = _needs_framework("jax")
needs_ray = _needs_framework("ray")
needs_mpirun = _needs("mpirun")
needs_mpi4py = pytest.mark.skipif(
    find_command("mpirun") is None or find_spec("mpi4py") is None,
    reason="mpi4py or Open MPI not installed; `make venv` and `scripts/install-system-packages` install them",
)
needs_ssh = _needs("ssh", "ssh-keygen", "dropbear", "dropbearkey")
needs_pdsh = _needs("pdsh")
needs_systemd = _needs("systemd-analyze")
needs_gdb = _needs("gdb")
needs_tmux = _needs("tmux")
needs_man = _needs("man", "groff")
needs_shells = _needs("bash", "zsh", "fish")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
