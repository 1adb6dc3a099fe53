"""What a test, and each process it starts, finds in its environment.

Nothing of the developer's own set-up may decide a test: a broker of theirs, a proxy, a cluster they are logged in to, a
window size left behind by a shell.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

DROPPED_PREFIXES = (
    "ACCELERATE_",
    "DBG_",
    "FLUX_",
    "JSM_",
    "LSB_",
    "MPI_",
    "MUNGE_",
    "OMPI_",
    "PALS_",
    "PMI",
    "PRTE_",
    "RAY_",
    "SLURM",
    "TORCHELASTIC_",
    "XDG_",
)
"""Ours, and what a launcher or scheduler leaves in a shell started by it."""

DROPPED = frozenset(
    {
        "COLORTERM",
        "COLUMNS",
        "FORCE_COLOR",
        "GROUP_RANK",
        "LINES",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "NODE_RANK",
        "NO_COLOR",
        "PYTHONBREAKPOINT",
        "PYTHONUNBUFFERED",
        "PYTHONWARNINGS",
        "RANK",
        "STY",
        "TMUX",
        "TMUX_PANE",
        "WORLD_SIZE",
    }
)

KEPT_PREFIX = "DBG_TEST_"
"""Settings of the tests themselves; parallel workers read them from what they inherit."""


def is_foreign(name: str) -> bool:
    """Say whether a variable of this name could decide a test that did not set it."""
    if name.startswith(KEPT_PREFIX):
        return False
    return name in DROPPED or name.startswith(DROPPED_PREFIXES) or name.lower().endswith("_proxy")


def clean_environment(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """Return ``environ`` without what could decide a test, with ``home`` as home and ``home/dbg`` as ``DBG_HOME``."""
    kept = {name: value for name, value in environ.items() if not is_foreign(name)}
    return kept | {
        "HOME": str(home),
        "DBG_HOME": str(home / "dbg"),
        "TERM": "xterm-256color",
        # Box drawing characters reach the screen only in a UTF-8 locale, and C.UTF-8 needs no package.
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
    }
