"""Function calls in the threads of a process that stands in gdb.

gdb's own calls won't do on x86-64: after each it writes the extended state (xmm, ymm, AMX tiles) as a whole, and before
gdb 14 its buffer is too small for a processor with AMX, so that the kernel refuses it. There the thread saves that
state itself, by XSAVE, and gdb writes general registers alone. The few instructions for that lie over the program's
entry, which runs once, at the start; the state lies in memory of its own, since a thread's stack may be small.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ctypes import c_int32, c_int64
from pathlib import Path

from dbg_client.adopt.errors import DebuggerFailed, LeftInCall
from dbg_client.adopt.gdb import Gdb
from dbg_client.adopt.process import auxiliary_vector

MAP_READ_WRITE, MAP_PRIVATE_ANONYMOUS = 0x3, 0x22

_SYSTEM_CALL = bytes.fromhex("0f05 cc")
"""``syscall; int3``"""

_CALL = bytes.fromhex(
    "480fae23"  # xsave64 [rbx]: all of the state, since edx:eax is -1
    "4c89ea"  # mov rdx, r13
    "41ffd4"  # call r12
    "4989c4"  # mov r12, rax
    "83c8ff"  # or eax, -1
    "99"  # cdq, which makes edx -1, too
    "480fae2b"  # xrstor64 [rbx]
    "cc"  # int3
)

_ARGUMENTS = ("rdi", "rsi", "r13", "rcx", "r8", "r9")
_SYSTEM_ARGUMENTS = ("rdi", "rsi", "rdx", "r10", "r8", "r9")

_GENERAL = (
    *("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"),
    *("rip", "eflags", "orig_rax"),
)
"""The registers that a function may change, beside the extended state."""

_RED_ZONE = 128
"""Bytes below the stack pointer that a function uses without moving it."""

_EFLAGS = 0x202
"""The flags with which a function begins: interrupts, and strings go upwards."""

_MMAP, _MUNMAP = 9, 11

_STATE_BYTES = 65_536
"""Room for the extended state: with AMX it takes 11 KB. A page that nothing is written to costs nothing."""

_AT_ENTRY, _AT_MINSIGSTKSZ = 9, 51

_SETTINGS = (
    # gdb would put instructions that it steps over where ours are.
    "set displaced-stepping off",
    # A register is that of the innermost frame, and gdb takes its time to look for others after each change.
    "set backtrace limit 1",
)


class Calls:
    """Calls functions in the threads of one process. The methods block, and raise DebuggerFailed."""

    def __init__(self, gdb: Gdb) -> None:
        self._gdb = gdb

    def call(self, thread: int, function: int, *arguments: int, alone: bool, returns: str = "int") -> int:
        """Call a function of up to six numbers in a thread, and return its number, however long it takes.

        ``returns`` is "int" or "long". With ``alone`` all other threads stand meanwhile. Nothing may end this wait: it
        would leave the thread there. Raises LeftInCall if the thread did not come back to where it was.
        """
        return self._gdb.call(thread, function, *arguments, alone=alone, returns=returns)

    def write(self, address: int, data: bytes) -> None:
        """Put bytes into the process's memory."""
        self._gdb.write(address, data)


class _OwnCalls(Calls):
    """Calls by our instructions, which lie at ``entry``; a thread's extended state lies at ``state`` meanwhile."""

    def __init__(self, gdb: Gdb, entry: int) -> None:
        super().__init__(gdb)
        self._entry = entry
        self.state = 0
        self.is_left = False

    def call(self, thread: int, function: int, *arguments: int, alone: bool, returns: str = "int") -> int:
        registers = {"rbx": self.state, "r12": function, "rax": -1, "rdx": -1}
        registers |= dict(zip(_ARGUMENTS, arguments, strict=False))
        begin = self._entry + len(_SYSTEM_CALL)
        number = self._run(thread, begin, begin + len(_CALL), registers, "r12", alone=alone)
        return (c_int64 if returns == "long" else c_int32)(number).value

    def system_call(self, thread: int, number: int, *arguments: int) -> int:
        """Make a system call in a thread while all others stand: the kernel keeps the extended state."""
        registers = {"rax": number, **dict(zip(_SYSTEM_ARGUMENTS, arguments, strict=False))}
        end = self._entry + len(_SYSTEM_CALL)
        return c_int64(self._run(thread, self._entry, end, registers, "rax", alone=True)).value

    def _run(self, thread: int, begin: int, end: int, registers: Mapping[str, int], result: str, *, alone: bool) -> int:
        """Run instructions until their trap, put the general registers back, and return what one of them held."""
        gdb = self._gdb
        gdb.run_alone(alone)
        kept = gdb.registers(thread, _GENERAL)
        # With a number in orig_rax the kernel would restart the system call in which the thread may be, here and now.
        changed = {"orig_rax": -1, "rip": begin, "rsp": (kept["rsp"] - _RED_ZONE) & ~0xF, "eflags": _EFLAGS}
        try:
            gdb.set_registers(thread, {**registers, **changed})
            reached = {"rip": begin}
            # Something else may stop the process meanwhile. gdb shows the trap itself, or what is behind it.
            while reached["rip"] not in (end - 1, end):
                gdb.go_on(thread)
                reached = gdb.registers(thread, _GENERAL, seconds=None)
            gdb.set_registers(thread, {name: value for name, value in kept.items() if value != reached[name]})
        except DebuggerFailed as error:
            self.is_left = True
            raise LeftInCall(error.text) from None
        return reached[result]


@contextmanager
def calls_in(gdb: Gdb, pid: int, thread: int) -> Iterator[Calls]:
    """Have functions called in a process that stands in gdb; ``thread`` gets memory for that, and gives it back."""
    if os.uname().machine != "x86_64" or not _has_xsave():
        yield Calls(gdb)
        return
    auxiliary = auxiliary_vector(pid)
    entry, ours = auxiliary[_AT_ENTRY], _SYSTEM_CALL + _CALL
    size = max(_STATE_BYTES, auxiliary.get(_AT_MINSIGSTKSZ, 0))
    calls = _OwnCalls(gdb, entry)
    for setting in _SETTINGS:
        gdb.set(setting)
    theirs = gdb.read(entry, len(ours))
    gdb.write(entry, ours)
    try:
        calls.state = calls.system_call(thread, _MMAP, 0, size, MAP_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0)
        if calls.state < 0:
            raise DebuggerFailed(f"the process gets no memory ({os.strerror(-calls.state)})")
        yield calls
    finally:
        if not calls.is_left:
            if calls.state > 0:
                calls.system_call(thread, _MUNMAP, calls.state, size)
            gdb.write(entry, theirs)


def _has_xsave() -> bool:
    """Tell whether programs may use XSAVE, as on all processors since 2011 unless the kernel was told otherwise."""
    with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
        return "xsave" in next((line for line in lines if line.startswith("flags")), "").split()
