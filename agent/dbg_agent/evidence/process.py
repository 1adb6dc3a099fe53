"""This process as its kernel sees it."""

from __future__ import annotations

import os
import threading
import time

from dbg_agent.evidence.descriptors import command_of
from dbg_agent.evidence.system_calls import kernel_thread, read_text, system_call
from dbg_wire.errors import printable
from dbg_wire.records.evidence import ProcessSeen
from dbg_wire.records.record import fitted

_CGROUPS = "/sys/fs/cgroup"
_NO_LIMIT = 2**60
"""What cgroups of version 1 have above this many bytes is no limit."""

_MAX_DEPTH = 16
"""Groups around each other whose limits are looked at."""


def process_seen() -> ProcessSeen:
    """Return what /proc tells; empty fields where it tells nothing. For any thread; it never raises."""
    status, main = _fields("/proc/self/status"), threading.main_thread()
    native = kernel_thread(main.native_id, is_main=True)
    call = system_call(native) if native is not None else None
    files = _fields("/proc/self/io")
    groups = _memory_groups()
    resident = _number(status.get("VmRSS", "").removesuffix("kB"))
    return fitted(
        ProcessSeen,
        state=status.get("State", "")[:1],
        system_call=call.name if call is not None else "",
        cpu=time.process_time(),
        main_cpu=_time_of(main.ident),
        input=_amount(files.get("rchar", "")),
        output=_amount(files.get("wchar", "")),
        memory=resident * 1024 if resident is not None else None,
        memory_limit=_limit(groups),
        note="; ".join(note for note in (_tracer(status.get("TracerPid", "")), _killed(groups)) if note),
    )


def _time_of(ident: int | None) -> float | None:
    try:
        # The main thread does not end before the process does; the clock of another thread must not be asked for.
        return time.clock_gettime(time.pthread_getcpuclockid(ident or 0))
    except OSError:
        return None


def _tracer(pid: str) -> str:
    number = _number(pid)
    return f"the process {command_of(number)} traces it" if number else ""


def _killed(groups: list[str]) -> str:
    """Say that the kernel has killed processes of the group for lack of memory, if it has."""
    for group in groups[:1]:
        for name in ("memory.events", "memory.oom_control"):
            killed = _number(_fields(f"{group}/{name}", " ").get("oom_kill", ""))
            if killed:
                what = "a process" if killed == 1 else f"{killed} processes"
                return f"the kernel has killed {what} of its group for lack of memory"
    return ""


def _limit(groups: list[str]) -> int | None:
    """Return the smallest memory limit of the groups around this process, None without any."""
    found = []
    for group in groups:
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _number(read_text(f"{group}/{name}"))
            if limit is not None and limit < _NO_LIMIT:
                found.append(limit)
    return min(found, default=None)


def _memory_groups() -> list[str]:
    """Return the folders of the groups that account this process's memory, the innermost first."""
    for line in read_text("/proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            top = _CGROUPS
        elif "memory" in controllers.split(","):
            top = f"{_CGROUPS}/memory"
        else:
            continue
        # A container may see its own group as the top, under a path that is the host's.
        parts = path.strip("/").split("/") if path.strip("/") else []
        inner = [f"{top}/{'/'.join(parts[:count])}" for count in range(len(parts), 0, -1)]
        found = [folder for folder in [*inner[:_MAX_DEPTH], top] if os.access(folder, os.R_OK)]
        if any(read_text(f"{folder}/{name}") for folder in found for name in ("memory.max", "memory.limit_in_bytes")):
            return found
    return []


def _fields(path: str, separator: str = ":") -> dict[str, str]:
    lines = (line.partition(separator) for line in read_text(path).splitlines())
    return {name: printable(value.strip()) for name, _, value in lines}


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _amount(text: str) -> float | None:
    number = _number(text)
    return float(number) if number is not None else None
