"""The stack of a process that can't be adopted, read from its memory by py-spy, which runs nothing in it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from dbg_wire.errors import printable

DUMP_SECONDS = 10.0
"""Seconds that py-spy may take: some tenths of one as a rule, more for a process of many libraries."""

MAX_LINES = 200
"""Lines that are shown: a process with many threads has more, and the main one comes first."""


def find_py_spy() -> str | None:
    """Return the path of py-spy, also where it stands beside this Python alone; None if there is none."""
    beside = Path(sys.executable).with_name("py-spy")
    return shutil.which("py-spy") or (str(beside) if beside.exists() else None)


def stack_of(pid: int) -> str | None:
    """Return the stacks of a process's threads as lines, or why there are none; None without py-spy. Blocks."""
    py_spy = find_py_spy()
    if py_spy is None:
        return None
    try:
        done = subprocess.run(
            [py_spy, "dump", "--pid", str(pid)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=DUMP_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"py-spy can't show its stack ({printable(str(error))})\n"
    said = done.stdout if done.returncode == 0 else done.stderr
    lines = said.decode("utf-8", "replace").splitlines()[:MAX_LINES]
    return "".join(f"{printable(line)}\n" for line in lines)
