"""The environment of a test and of each process that it starts.

The developer's own set-up must not decide a test: neither a broker, a proxy or a cluster, nor a window size that a
shell left behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PREFIXES = """
ACCELERATE_ DBG_ FLUX_ LSB_ MPI_ MUNGE_ OMPI_ PALS_ PMI PRTE_ RAY_ SLURM TORCHELASTIC_ XDG_
"""
"""Prefixes of our own variables, and of those that a launcher or scheduler sets in a shell."""

NAMES = """
COLORTERM COLUMNS FORCE_COLOR GROUP_RANK LESS LINES LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT NODE_RANK
NO_COLOR PAGER PYTHONBREAKPOINT PYTHONUNBUFFERED PYTHONWARNINGS RANK STY TMUX TMUX_PANE WORLD_SIZE
"""

KEPT_PREFIX = "DBG_TEST_"
"""Prefix of the tests' own settings, which parallel workers inherit."""


def is_foreign(name: str) -> bool:
    """Say whether a variable of this name could decide a test that did not set it."""
    if name.startswith(KEPT_PREFIX):
        return False
    return name in NAMES.split() or name.startswith(tuple(PREFIXES.split())) or name.lower().endswith("_proxy")


def clean_environment(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """Return ``environ`` without foreign variables, with ``home`` as home and ``home/dbg`` as ``DBG_HOME``."""
    kept = {name: value for name, value in environ.items() if not is_foreign(name)}
    return kept | {
        "HOME": str(home),
        "DBG_HOME": str(home / "dbg"),
        "TERM": "xterm-256color",
        # Box drawing characters reach the screen only in a UTF-8 locale, and C.UTF-8 needs no package.
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
    }
