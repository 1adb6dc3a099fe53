"""Where the kernel most likely puts a process's core file."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping

_SPECIFIER = re.compile(r"%(.)")


def likely_core(pid: int, signal: int) -> str:
    """Return the path, or ``|`` and the program that gets the core, or "" if there is none or nobody can say.

    Ask while the process lives: its folder and limits go with it.
    """
    try:
        pattern = _read("/proc/sys/kernel/core_pattern").rstrip("\n")
        if pattern.startswith("|"):
            return pattern.partition(" ")[0]
        if not pattern or not _may_write(_read(f"/proc/{pid}/limits")):
            return ""
        with_pid = _read("/proc/sys/kernel/core_uses_pid").strip() != "0"
        path = expand(pattern, _facts(pid, signal), with_pid=with_pid)
        return os.path.join(os.readlink(f"/proc/{pid}/cwd"), path)  # noqa: PTH115, PTH118
    except (OSError, ValueError, IndexError):
        return ""


def expand(pattern: str, facts: Mapping[str, str], *, with_pid: bool) -> str:
    """Return the file name that the kernel makes of a pattern, as core(5) says."""
    name = _SPECIFIER.sub(lambda found: facts.get(found[1], ""), pattern)
    if with_pid and "%p" not in pattern:
        name += f".{facts['p']}"
    return name


def _facts(pid: int, signal: int) -> dict[str, str]:
    status = os.stat(f"/proc/{pid}")  # noqa: PTH116
    command = _read(f"/proc/{pid}/comm").rstrip("\n")
    return {
        "%": "%",
        "p": str(pid),
        "P": str(pid),
        "i": str(pid),
        "I": str(pid),
        "u": str(status.st_uid),
        "g": str(status.st_gid),
        "s": str(signal),
        "t": str(int(time.time())),
        "h": os.uname().nodename,
        "e": command.replace("/", "!"),
        "f": os.path.basename(os.readlink(f"/proc/{pid}/exe")),  # noqa: PTH115, PTH119
        "E": os.readlink(f"/proc/{pid}/exe").replace("/", "!"),  # noqa: PTH115
    }


def _may_write(limits: str) -> bool:
    line = next((line for line in limits.splitlines() if line.startswith("Max core file size")), "")
    return line.split()[4] != "0"


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        return file.read()
