"""Where our packages are here, and whether a process's own environment has them."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

from dbg_client.adopt.payload import OURS
from dbg_client.adopt.process import PROC, Seen

PROBE_SECONDS = 20.0
"""Seconds for an interpreter to start and look for a package, on a file system of a network."""

_PROBE = "import importlib.util, sys; sys.exit(importlib.util.find_spec('dbg_agent') is None)"


def folders_of_ours() -> list[str]:
    """Return the folders in which the packages of a rank are found here, each once; none of them is imported."""
    found: dict[str, None] = {}
    for name in OURS:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            found.update((str(Path(place).absolute().parent), None) for place in spec.submodule_search_locations)
        elif spec is not None and spec.origin:
            found[str(Path(spec.origin).absolute().parent)] = None
    return list(found)


def has_package(seen: Seen) -> bool:
    """Tell whether the interpreter of a process finds our package, by starting it once more in its environment."""
    first = seen.argv[0] if seen.argv else ""
    folder = PROC / str(seen.pid) / "cwd"
    for interpreter in dict.fromkeys((first, str(PROC / str(seen.pid) / "exe"))):
        if "python" not in interpreter.rpartition("/")[2] and not interpreter.startswith("/proc/"):
            continue
        try:
            command = [interpreter, "-c", _PROBE]
            ended = subprocess.run(
                command,
                env=seen.environ,
                cwd=folder,
                timeout=PROBE_SECONDS,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if ended.returncode == 0:
            return True
    return False
