"""Where the kernel most likely puts a process's core file."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping

_SPECIFIER = re.compile(r"%(.)")


def likely_core(facts: Mapping[str, str], pid: int, signal: int) -> str:
    """Return the path, or ``|`` and the program that gets the core, or "" if there is none or it is unknown.

    ``facts`` are what :func:`dbg_agent.guard.watched.facts_of` returned while the process lived.
    """
    try:
        pattern = _read("/proc/sys/kernel/core_pattern").rstrip("\n")
        if pattern.startswith("|"):
            return pattern.partition(" ")[0]
        if not pattern or not facts or not _may_write(facts["limits"]):
            return ""
        with_pid = _read("/proc/sys/kernel/core_uses_pid").strip() != "0"
        return os.path.join(facts["cwd"], expand(pattern, _named(facts, pid, signal), with_pid=with_pid))  # noqa: PTH118
    except (OSError, ValueError, IndexError):
        return ""


def expand(pattern: str, facts: Mapping[str, str], *, with_pid: bool) -> str:
    """Return the file name that the kernel makes of a pattern, as core(5) says."""
    name = _SPECIFIER.sub(lambda found: facts.get(found[1], ""), pattern)
    if with_pid and "%p" not in pattern:
        name += f".{facts['p']}"
    return name


def _named(facts: Mapping[str, str], pid: int, signal: int) -> dict[str, str]:
    return {
        "%": "%",
        **dict.fromkeys("pPiI", str(pid)),
        "u": facts["uid"],
        "g": facts["gid"],
        "s": str(signal),
        "t": str(int(time.time())),
        "h": os.uname().nodename,
        "e": facts["name"].replace("/", "!"),
        "f": os.path.basename(facts["exe"]),  # noqa: PTH119
        "E": facts["exe"].replace("/", "!"),
    }


def _may_write(limits: str) -> bool:
    line = next((line for line in limits.splitlines() if line.startswith("Max core file size")), "")
    return line.split()[4] != "0"


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        return file.read()
