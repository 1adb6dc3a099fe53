"""A client of gdb's machine interface (MI), for one process.

gdb gets no symbols: what it calls is named by address, so that it starts in a quarter of a second and reads no file of
the program but its C library. Its own session keeps a Ctrl-C at the terminal away from it: a debugger that ends while a
call is under way would leave the thread in the midst of it.

gdb's own calls of functions won't do on x86-64: after each it writes the extended state (xmm, ymm, AMX tiles) as a
whole, and before gdb 14 its buffer is too small for a processor with AMX, so that the kernel refuses it. There the
thread saves that state itself, by XSAVE, and gdb writes general registers alone. The few instructions for that lie over
the program's entry, which runs once, at the start; the state lies in memory of its own, since a thread's stack may be
small.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from ctypes import c_int32, c_int64
from pathlib import Path
from typing import IO, cast

from dbg_client.adopt.errors import DebuggerFailed, LeftInCall, NotAttached
from dbg_client.adopt.process import auxiliary_vector

COMMAND_SECONDS = 30.0
"""Seconds for an answer of gdb that needs nothing of the process; on a busy node it starts within a few."""

MAX_LINE = 1_000_000
"""Bytes of a line of gdb: the list of a thousand threads is shorter."""

_OPTIONS = (
    "auto-solib-add off",
    "auto-load no",
    "libthread-db-search-path /nonexistent",
    "debuginfod enabled off",
    "print thread-events off",
    "print inferior-events off",
)

_OWN = ("-nx", "-q", "-readnever", "--interpreter=mi2")
"""The options by which a gdb of an adoption is known."""

_SETTINGS = (
    "set confirm off",
    "set unwindonsignal off",
    # A signal that stopped the process would break off a call in its midst; the program gets its signals as always.
    "handle all nostop noprint pass",
    "handle SIGINT nostop noprint pass",
)

_VALUE = re.compile(r'\{number="(\d+)",value="(0x[0-9a-f]+)"\}')

_THREAD = re.compile(r'\{id="(\d+)",target-id="[^"]*?(?:LWP|process) (\d+)')

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

_CALL_SETTINGS = (
    # gdb would put instructions that it steps over where ours are.
    "set displaced-stepping off",
    # A register is that of the innermost frame, and gdb takes its time to look for others after each change.
    "set backtrace limit 1",
)


def find_gdb() -> str | None:
    """Return the path of gdb, None if there is none."""
    return shutil.which("gdb")


def is_our_gdb(argv: Sequence[str]) -> bool:
    """Tell whether a command line is that of the gdb of an adoption."""
    return tuple(argv[1 : len(_OWN) + 1]) == _OWN


class Gdb:
    """One gdb, attached to one process; the methods block, and raise DebuggerFailed for what gdb refuses."""

    def __init__(self, path: str) -> None:
        settings = [word for option in _OPTIONS for word in ("-iex", f"set {option}")]
        self._process = subprocess.Popen(
            [path, *_OWN, *settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C"},
        )
        self._words = cast(IO[bytes], self._process.stdin)
        self._said = cast(IO[bytes], self._process.stdout)
        self._buffer = b""
        self._register_names: list[str] = []

    def set(self, setting: str) -> None:
        """Give gdb a setting, in the words of its console."""
        self.ask(f'-interpreter-exec console "{setting}"')

    def attach(self, pid: int) -> None:
        """Stop all threads of a process."""
        for setting in _SETTINGS:
            self.set(setting)
        self.ask(f"-target-attach {pid}")

    def detach(self) -> None:
        """Let the process go on without gdb."""
        self.ask("-target-detach")

    def threads(self) -> dict[int, int]:
        """Return gdb's numbers of the threads by those of the kernel."""
        return {int(lwp): int(number) for number, lwp in _THREAD.findall(self.ask("-thread-info"))}

    def call(self, thread: int, function: int, *arguments: int, alone: bool, returns: str = "int") -> int:
        """Have gdb call a function in a thread, and return the number that it returns, however long it takes."""
        self.run_alone(alone)
        types = ",".join("long" for _ in arguments) or "void"
        words = ",".join(f"{argument:#x}" for argument in arguments)
        call = f'-data-evaluate-expression --thread {thread} "(({returns}(*)({types})){function:#x})({words})"'
        found = re.search(r'value="(-?\d+)', self.ask(call, seconds=None))
        if found is None:
            raise DebuggerFailed("a call has returned no number")
        return int(found[1])

    def run_alone(self, alone: bool) -> None:
        """Have all other threads stand, or not, while a thread runs."""
        self.set(f"set scheduler-locking {'on' if alone else 'off'}")

    def go_on(self, thread: int) -> None:
        """Let a thread run; the answer to the next command comes when the process stands again."""
        self.ask(f"-exec-continue --thread {thread}")

    def registers(self, thread: int, *, seconds: float | None = COMMAND_SECONDS) -> dict[str, int]:
        """Return what the registers of a thread hold that a function may change, without a sign."""
        if not self._register_names:
            self._register_names = re.findall(r'"(\w*)"', self.ask("-data-list-register-names"))
        try:
            numbers = [self._register_names.index(name) for name in _GENERAL]
            wanted = " ".join(map(str, numbers))
            answer = self.ask(f"-data-list-register-values --thread {thread} --frame 0 x {wanted}", seconds=seconds)
            values = {int(number): int(value, 16) for number, value in _VALUE.findall(answer)}
            return {name: values[number] for name, number in zip(_GENERAL, numbers, strict=True)}
        except (ValueError, KeyError):
            raise DebuggerFailed("it does not show all registers") from None

    def set_registers(self, thread: int, values: Mapping[str, int]) -> None:
        """Write registers of a thread, each for itself."""
        for name, value in values.items():
            self.ask(f'-data-evaluate-expression --thread {thread} --frame 0 "${name}={value:#x}"')

    def read(self, address: int, size: int) -> bytes:
        """Return bytes of the process's memory."""
        found = re.search(r'contents="([0-9a-f]*)"', self.ask(f"-data-read-memory-bytes {address:#x} {size}"))
        if found is None or len(found[1]) != 2 * size:
            raise DebuggerFailed("it does not show the process's memory")
        return bytes.fromhex(found[1])

    def write(self, address: int, data: bytes) -> None:
        """Put bytes into the process's memory."""
        for at in range(0, len(data), 2048):
            self.ask(f"-data-write-memory-bytes {address + at:#x} {data[at : at + 2048].hex()}")

    def ask(self, command: str, *, seconds: float | None = COMMAND_SECONDS) -> str:
        """Return what gdb answers to a command."""
        try:
            self._words.write(command.encode() + b"\n")
            self._words.flush()
        except OSError:
            raise DebuggerFailed("it has ended") from None
        for line in self._lines(seconds):
            if line.startswith(b"^error"):
                raise DebuggerFailed(_message(line))
            if line.startswith(b"^"):
                return line.decode("utf-8", "replace")
        raise DebuggerFailed("it has ended")

    def close(self) -> None:
        """End gdb; a process that it is attached to goes on."""
        with suppress(OSError):
            self._words.close()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said.close()

    def _lines(self, seconds: float | None) -> Iterator[bytes]:
        deadline = None if seconds is None else time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._said, selectors.EVENT_READ)
            while True:
                *lines, self._buffer = self._buffer.split(b"\n")
                for at, line in enumerate(lines):
                    if line.startswith(b"^"):
                        self._buffer = b"\n".join([*lines[at + 1 :], self._buffer])
                    yield line
                if not selector.select(None if deadline is None else max(0.0, deadline - time.monotonic())):
                    raise DebuggerFailed("it does not answer")
                piece = os.read(self._said.fileno(), 65536)
                if not piece or len(self._buffer) > MAX_LINE:
                    return
                self._buffer += piece


@contextmanager
def attached(path: str, pid: int) -> Iterator[Gdb]:
    """Hold a process stopped in gdb, and let it go on afterwards."""
    gdb = Gdb(path)
    try:
        try:
            gdb.attach(pid)
        except DebuggerFailed as error:
            raise NotAttached(error.text) from None
        yield gdb
        gdb.detach()
    finally:
        gdb.close()


def _message(line: bytes) -> str:
    found = re.search(rb'msg="((?:[^"\\]|\\.)*)"', line)
    return found[1].decode("utf-8", "replace").replace('\\"', '"').replace("\\n", " ") if found else "no reason given"


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
        kept = gdb.registers(thread)
        # With a number in orig_rax the kernel would restart the system call in which the thread may be, here and now.
        changed = {"orig_rax": -1, "rip": begin, "rsp": (kept["rsp"] - _RED_ZONE) & ~0xF, "eflags": _EFLAGS}
        try:
            gdb.set_registers(thread, {**registers, **changed})
            reached = {"rip": begin}
            # Something else may stop the process meanwhile. gdb shows the trap itself, or what is behind it.
            while reached["rip"] not in (end - 1, end):
                gdb.go_on(thread)
                reached = gdb.registers(thread, seconds=None)
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
    for setting in _CALL_SETTINGS:
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
