"""What a guard tells of a rank that can't answer: its process as the kernel sees it, and what its main thread is in."""

from __future__ import annotations

import os
from collections.abc import Sequence

from dbg_agent.host.proc import TICKS, fields_of, number_in, read_proc, stat_of
from dbg_agent.host.watched import Memory
from dbg_wire.errors import printable
from dbg_wire.messages import Look
from dbg_wire.records.evidence import MAX_WAIT_FRAMES, EvidenceRecord, ProcessSeen, ThreadWait, WaitKind, fitting
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import fitted
from dbg_wire.tables.system_calls import call_names


def evidence_rows(
    look: Look, pid: int, memory: Memory, text: str, frames: Sequence[Place]
) -> tuple[EvidenceRecord, ...]:
    """Return the rows of an answer; ``text`` says what the rank is in, ``frames`` are its last known stack.

    There are none for a look at less than evidence. For any thread; it never raises.
    """
    if look is not Look.EVIDENCE:
        return ()
    inner = tuple(frames)[-MAX_WAIT_FRAMES:]
    wait = fitted(
        ThreadWait, thread="MainThread", kind=WaitKind.NATIVE, text=text, is_main=True, is_sure=True, frames=inner
    )
    records: list[EvidenceRecord] = [wait, process_of(pid, memory)]
    return fitting(records)


def process_of(pid: int, memory: Memory) -> ProcessSeen:
    """Return what /proc tells of another process; empty fields where it tells nothing."""
    words, main = stat_of(pid)[1], stat_of(f"{pid}/task/{pid}")[1]
    status, files = fields_of(f"/proc/{pid}/status"), fields_of(f"/proc/{pid}/io")
    memory.note()
    return fitted(
        ProcessSeen,
        state=words[0] if words else "",
        system_call=_system_call(pid),
        cpu=_cpu(words),
        main_cpu=_cpu(main),
        input=number_in(files.get("rchar", "")),
        output=number_in(files.get("wchar", "")),
        memory=memory.held or None,
        memory_limit=memory.limit(),
        note=_note(status),
    )


def suspended_by(pid: int) -> str:
    """Return who has stopped a process: SIGSTOP, or the tracer by name and number."""
    return _tracer(fields_of(f"/proc/{pid}/status")) or "SIGSTOP"


def _note(status: dict[str, str]) -> str:
    tracer = _tracer(status)
    state = status.get("State", "")[:1]
    if tracer:
        return f"{tracer} has stopped it" if state == "t" else f"{tracer} traces it"
    if state == "T":
        return "SIGSTOP or a like signal has stopped it; SIGCONT lets it go on"
    if state == "D":
        return (
            "it waits in the kernel, where no signal reaches it: often a file system or a device that does not answer"
        )
    return ""


def _tracer(status: dict[str, str]) -> str:
    number = status.get("TracerPid", "0")
    if not number.isdecimal() or number == "0":
        return ""
    name = read_proc(f"/proc/{number}/comm").strip()
    return f"{printable(name)} (pid {number})" if name else f"process {number}"


def _system_call(pid: int) -> str:
    number = read_proc(f"/proc/{pid}/syscall").partition(" ")[0].strip()
    names = call_names(os.uname().machine)
    return names.get(int(number), f"number {number}") if number.isdecimal() and names else ""


def _cpu(words: Sequence[str]) -> float | None:
    return (int(words[11]) + int(words[12])) / TICKS if len(words) > 12 else None
