"""The cause of a rank's end, as its host knows it: memory, a time limit, a signal; and where the core file is."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbg_agent.host.proc import read_proc
from dbg_agent.host.watched import Ancestor, Memory

LATE_SECONDS = 45.0
"""Seconds after a time limit within which it explains an end: launchers wait 30 s between SIGTERM and SIGKILL."""

EARLY_SECONDS = 0.5
"""Seconds before a time limit within which it explains an end, for clocks that are read in full seconds."""

SLURM_LATE_SECONDS = 180.0
"""The same for SLURM, which looks for jobs whose time is up every half minute or minute."""

_ENDING = frozenset({signal.SIGTERM, signal.SIGKILL})
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+\.?\d*|\.\d+)([smhd]?)")


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """A ``timeout`` above a rank: its words up to the command, its seconds, and the signal that it sends first."""

    shown: str
    seconds: float
    number: int


def cause_of_end(
    number: int, memory: Memory, above: Sequence[Ancestor], environ: Mapping[str, str], *, uptime: float, now: float
) -> str:
    """Return who sent the signal that ended a process, as the end of a sentence; empty if that is not known.

    ``uptime`` is the kernel's time since its start, ``now`` wall-clock time, both at the end of the process.
    """
    if number == signal.SIGKILL and memory.has_run_out():
        return _out_of_memory(memory)
    for ancestor in above:
        limit = time_limit(ancestor.words)
        age = uptime - ancestor.began
        if limit is not None and _is_near(age - limit.seconds, LATE_SECONDS) and number in {limit.number, *_ENDING}:
            return f"from `{limit.shown}`, whose time was up"
    end = environ.get("SLURM_JOB_END_TIME", "")
    if number in _ENDING and end.isdecimal() and _is_near(now - int(end), SLURM_LATE_SECONDS):
        return f"from SLURM: the time limit of the job was {time.strftime('%H:%M:%S', time.localtime(int(end)))}"
    return ""


def time_limit(words: Sequence[str]) -> TimeLimit | None:
    """Return the limit that a command line of ``timeout`` sets, None if it sets none or can't be read."""
    number: int = signal.SIGTERM
    at = 1
    while at < len(words) and words[at].startswith("-"):
        name, equals, value = words[at].partition("=")
        if not name.startswith("--") and len(name) > 2 and name[1] in "ks":
            name, equals, value = name[:2], "=", words[at][2:]
        if name in ("-k", "--kill-after", "-s", "--signal") and not equals:
            at += 1
            value = words[at] if at < len(words) else ""
        if name in ("-s", "--signal"):
            number = _signal(value)
        at += 1
    found = _DURATION.fullmatch(words[at]) if at < len(words) else None
    if found is None or not float(found[1]):
        return None
    shown = " ".join(["timeout", *words[1 : at + 1]])
    return TimeLimit(shown, float(found[1]) * _UNITS[found[2]], number)


def _is_near(late: float, most: float) -> bool:
    return -EARLY_SECONDS <= late <= most


def _signal(name: str) -> int:
    if name.isdecimal():
        return int(name)
    try:
        return signal.Signals[f"SIG{name.upper().removeprefix('SIG')}"]
    except KeyError:
        return 0


def _out_of_memory(memory: Memory) -> str:
    limit = memory.limit()
    whose = "the host ran out" if limit is None else f"limit of its cgroup {shown_bytes(limit)}"
    held = f"; it held {shown_bytes(memory.held)} {time.monotonic() - memory.noted:.1f} s before" if memory.held else ""
    return f"from the kernel's out-of-memory killer ({whose}){held}"


def shown_bytes(size: int) -> str:
    """Return a number of bytes as people say it."""
    units = ("KiB", "MiB", "GiB")
    power = next((power for power in (1, 2, 3) if size < 1024 ** (power + 1)), 3)
    return f"{size / 1024**power:.1f} {units[power - 1]}"


_SPECIFIER = re.compile(r"%(.)")


def likely_core(facts: Mapping[str, str], pid: int, number: int) -> str:
    """Return the path, or ``|`` and the program that gets the core, or "" if there is none or it is unknown.

    ``facts`` are what :func:`dbg_agent.host.watched.facts_of` returned while the process lived.
    """
    try:
        pattern = read_proc("/proc/sys/kernel/core_pattern").rstrip("\n")
        if pattern.startswith("|"):
            return pattern.partition(" ")[0]
        if not pattern or not facts or not _may_write(facts["limits"]):
            return ""
        with_pid = read_proc("/proc/sys/kernel/core_uses_pid").strip() != "0"
        return os.path.join(facts["cwd"], expand(pattern, _named(facts, pid, number), with_pid=with_pid))  # noqa: PTH118
    except (OSError, ValueError, IndexError):
        return ""


def expand(pattern: str, facts: Mapping[str, str], *, with_pid: bool) -> str:
    """Return the file name that the kernel makes of a pattern, as core(5) says."""
    name = _SPECIFIER.sub(lambda found: facts.get(found[1], ""), pattern)
    if with_pid and "%p" not in pattern:
        name += f".{facts['p']}"
    return name


def _named(facts: Mapping[str, str], pid: int, number: int) -> dict[str, str]:
    return {
        "%": "%",
        **dict.fromkeys("pPiI", str(pid)),
        "u": facts["uid"],
        "g": facts["gid"],
        "s": str(number),
        "t": str(int(time.time())),
        "h": os.uname().nodename,
        "e": facts["name"].replace("/", "!"),
        "f": os.path.basename(facts["exe"]),  # noqa: PTH119
        "E": facts["exe"].replace("/", "!"),
    }


def _may_write(limits: str) -> bool:
    line = next((line for line in limits.splitlines() if line.startswith("Max core file size")), "")
    return line.split()[4] != "0"
