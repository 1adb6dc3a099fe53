"""This process as its kernel sees it."""

from __future__ import annotations

import threading
import time

from dbg_agent.evidence.descriptors import command_of
from dbg_agent.evidence.system_calls import kernel_thread, system_call
from dbg_agent.launch.proc import MemoryGroup, fields_of, number_in
from dbg_wire.records.evidence import ProcessSeen
from dbg_wire.records.record import fitted


def process_seen() -> ProcessSeen:
    """Return what /proc tells; empty fields where it tells nothing. For any thread; it never raises."""
    status, main = fields_of("/proc/self/status"), threading.main_thread()
    native = kernel_thread(main.native_id, is_main=True)
    call = system_call(native) if native is not None else None
    files = fields_of("/proc/self/io")
    group = MemoryGroup("self")
    resident = number_in(status.get("VmRSS", "").removesuffix("kB"))
    return fitted(
        ProcessSeen,
        state=status.get("State", "")[:1],
        system_call=call.name if call is not None else "",
        cpu=time.process_time(),
        main_cpu=_time_of(main.ident),
        input=number_in(files.get("rchar", "")),
        output=number_in(files.get("wchar", "")),
        memory=resident * 1024 if resident is not None else None,
        memory_limit=group.limit(),
        note="; ".join(note for note in (_tracer(status.get("TracerPid", "")), _killed(group)) if note),
    )


def _time_of(ident: int | None) -> float | None:
    try:
        # The main thread does not end before the process does; the clock of another thread must not be asked for.
        return time.clock_gettime(time.pthread_getcpuclockid(ident or 0))
    except OSError:
        return None


def _killed(group: MemoryGroup) -> str:
    """Say that the kernel has killed processes of the group for lack of memory, if it has."""
    killed = group.kills()
    what = "a process" if killed == 1 else f"{killed} processes"
    return f"the kernel has killed {what} of its group for lack of memory" if killed else ""


def _tracer(pid: str) -> str:
    number = number_in(pid)
    return f"the process {command_of(number)} traces it" if number else ""
