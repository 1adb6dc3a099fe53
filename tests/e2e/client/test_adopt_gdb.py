"""Functions are called in a thread at any moment, and the thread goes on as if nothing had been."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from dbg_client.adopt.gdb import Gdb, LeftInCall, attached, find_gdb
from tests.conftest import Approved
from tests.support.requirements import needs_gdb

pytestmark = needs_gdb
only_x86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="its machine code is that of x86-64")

SPIN = (
    "4989d0 83c8ff 99"  # mov r8, rdx; edx:eax = -1
    "480fae21 480fae2e"  # xsave64 [rcx]; xrstor64 [rsi]
    "c7470401000000"  # mov dword [rdi + 4], 1
    "833f00 74fb"  # wait until dword [rdi] is not 0
    "490fae20 480fae29 c3"  # xsave64 [r8]; xrstor64 [rcx]; ret
)
"""``spin(flags, pattern, found, own)`` holds a pattern in the extended state until a flag is set, and stores it."""

WRECK = (
    "48c1e704 4801f7 48c1e704 4801d7 48c1e704 4801cf 48c1e704 4c01c7"  # rdi = a * 16**4 + b * 16**3 ... + e
    "83c8ff 99 490fae29"  # edx:eax = -1; xrstor64 [r9]
    "4889f8 31c9 31ff 31f6 4531c0 4531c9 4531d2 4531db c3"  # mov rax, rdi; zero in all that a function may change; ret
)
"""``wreck(a, b, c, d, e, zeros)`` resets the extended state and what else a function may change."""

WRECK_AT, FLAGS, OTHER_FLAGS, ZEROS, PATTERN, FOUND, OWN = 64, 1024, 2048, 4096, 1 << 14, 1 << 15, 1 << 16

PROGRAM = f"""\
import ctypes, mmap, os, threading
page = mmap.mmap(-1, 1 << 17, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
spin, wreck = bytes.fromhex({SPIN!r}), bytes.fromhex({WRECK!r})
page[:len(spin)], page[{WRECK_AT}:{WRECK_AT} + len(wreck)] = spin, wreck
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
FLAGS, PATTERN, FOUND, OWN = {FLAGS}, {PATTERN}, {FOUND}, {OWN}
has_ymm = "avx" in open("/proc/cpuinfo").read().split()
parts = [(0, 2), (24, 28), (160, 416), *([(576, 832)] if has_ymm else [])]  # x87's mode, SSE's mode, xmm, ymm
pattern = bytearray(os.urandom(832))
pattern[:160] = bytes(160)
pattern[0:2], pattern[24:28] = (0x27f).to_bytes(2, "little"), (0x7f80).to_bytes(4, "little")
pattern[512:576] = (7 if has_ymm else 3).to_bytes(64, "little")
page[PATTERN:PATTERN + 832] = pattern
def report():
    for flags in (FLAGS, {OTHER_FLAGS}):
        while not page[flags + 4]:
            pass
        print(address, flush=True)
threading.Thread(target=report, daemon=True).start()
run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(address)
run(address + FLAGS, address + PATTERN, address + FOUND, address + OWN)
print([pattern[begin:end] == page[FOUND + begin:FOUND + end] for begin, end in parts], flush=True)
"""

READS = """\
import os, threading
def report():
    while not open(f"/proc/self/task/{os.getpid()}/syscall").read().startswith("0 0x0 "):
        pass
    print("up", flush=True)
threading.Thread(target=report).start()
print(os.read(0, 1), flush=True)
"""

Started = subprocess.Popen[str]


def start(program: str) -> Started:
    """Start a program in Python."""
    command = [sys.executable, "-c", program]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def line(process: Started) -> str:
    """Return the next line that a program writes."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def spinner() -> Iterator[Started]:
    """A process whose main thread holds a pattern in its registers."""
    with start(PROGRAM) as process:
        yield process
        process.kill()


@pytest.fixture
def reader() -> Iterator[Started]:
    """A process whose main thread waits in a system call."""
    with start(READS) as process:
        yield process
        process.kill()


def gdb_path() -> str:
    """Return gdb's path."""
    path = find_gdb()
    assert path is not None
    return path


@only_x86_64
def test_a_thread_keeps_its_registers_over_calls_that_change_all(spinner: Started) -> None:
    page = int(line(spinner))
    wreck, zeros = page + WRECK_AT, page + ZEROS
    with attached(gdb_path(), spinner.pid) as gdb:
        main = gdb.threads()[spinner.pid]
        assert gdb.call(main, wreck, 1, 2, 3, 4, 5, zeros, alone=True) == 0x12345
        assert gdb.call(main, wreck, -1, 15, 15, 15, 15, zeros, alone=True) == -1
        assert gdb.call(main, wreck, 2**40, 0, 0, 0, 7, zeros, alone=False, returns="long") == 2**56 + 7
        gdb.write(page + FLAGS, b"\1")
    kept = line(spinner).strip("[]").split(", ")
    assert len(kept) >= 3
    assert set(kept) == {"True"}
    assert spinner.wait() == 0


def test_a_system_call_that_waits_continues_to_wait(reader: Started) -> None:
    assert line(reader) == "up"
    with attached(gdb_path(), reader.pid) as gdb:
        main = gdb.threads()[reader.pid]
        for name, expected in (("Py_IsInitialized", 1), ("PyGILState_Check", 0)):
            function = gdb.address(name)
            assert function is not None
            assert gdb.call(main, function, alone=True) == expected
        assert gdb.address("no_such_function") is None
    assert reader.communicate("x")[0] == "b'x'\n"


@only_x86_64
def test_a_gdb_that_ends_during_a_call_is_reported(approved: Approved, spinner: Started) -> None:
    page = int(line(spinner))

    gdb = Gdb(gdb_path())
    gdb.attach(spinner.pid)
    main = gdb.threads()[spinner.pid]

    def call() -> None:
        gdb.call(main, page, page + OTHER_FLAGS, page + ZEROS, page + FOUND, page + OWN, alone=False)

    with ThreadPoolExecutor(1) as executor:
        called = executor.submit(call)
        assert int(line(spinner)) == page
        gdb._process.kill()
        with pytest.raises(LeftInCall) as caught:
            called.result()
        approved(str(caught.value))
    gdb.close()
