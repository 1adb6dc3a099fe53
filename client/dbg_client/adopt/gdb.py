"""A client of gdb's machine interface (MI), for one process.

gdb reads function names only from the program's own file, Python's library and the C library. So it starts in a quarter
of a second. gdb runs in its own session, so that Ctrl-C at the terminal does not end gdb. If gdb ended during a
function call, the thread would stay in the middle of that call.

After each function call gdb writes back all registers of the thread (xmm, ymm, AMX tiles). On a processor with AMX, a
gdb before 14 writes these registers from a buffer that is too small, so the kernel rejects the write. So adoption on a
processor with AMX needs gdb 14 or newer.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, cast

from dbg_wire.errors import ReasonedError

COMMAND_SECONDS = 30.0
"""Timeout for gdb's answer to a command that runs no code in the process, in seconds; a busy node needs a few."""

MAX_LINE = 1_000_000
"""Maximum length of a line from gdb, in bytes: the list of a thousand threads is shorter."""

_OPTIONS = (
    "auto-solib-add off",
    "auto-load no",
    "libthread-db-search-path /nonexistent",
    "debuginfod enabled off",
    "print thread-events off",
    "print inferior-events off",
)

_SETTINGS = (
    "set confirm off",
    "set unwindonsignal off",
    # If gdb stopped the process at a signal, that would interrupt a call. So gdb passes all signals to the program.
    "handle all nostop noprint pass",
    "handle SIGINT nostop noprint pass",
)

_THREAD = re.compile(r'\{id="(\d+)",target-id="[^"]*?(?:LWP|process) (\d+)')

MAP_READ_WRITE, MAP_PRIVATE_ANONYMOUS = 0x3, 0x22

_AMX_VERSION = 14
"""First major version of gdb that can restore the registers of a processor with AMX."""


def find_gdb() -> str | None:
    """Return the path of gdb, or None if it is not installed."""
    return shutil.which("gdb")


def loses_registers(gdb: str) -> bool:
    """Return True if this gdb can't restore all registers of this host's processor. Blocks while gdb starts."""
    with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
        flags = next((line for line in lines if line.startswith("flags")), "").split()
    if "amx_tile" not in flags:
        return False
    version = subprocess.run([gdb, "--version"], capture_output=True, text=True, check=False).stdout
    return major_version(version) < _AMX_VERSION


def major_version(version: str) -> int:
    """Return the major version in the output of ``gdb --version``, or 0 if it has no version."""
    found = re.match(r"GNU gdb.* (\d+)\.", version)
    return int(found[1]) if found else 0


class DebuggerFailed(ReasonedError):
    """Raised when a command of gdb fails; the reason is usually gdb's own text."""

    sentence = "gdb failed: {reason}; the process continues as before"


class LeftInCall(DebuggerFailed):
    """Raised when a thread was left in the middle of a call: gdb was killed, or the process has ended."""

    sentence = "gdb failed: {reason}; the process was in the middle of a call, and will not survive it"


class Gdb:
    """One gdb attached to one process; the methods block, and raise DebuggerFailed if gdb reports an error."""

    def __init__(self, path: str) -> None:
        settings = [word for option in _OPTIONS for word in ("-iex", f"set {option}")]
        self._process = subprocess.Popen(
            [path, "-nx", "-q", "-readnever", "--interpreter=mi2", *settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C"},
        )
        self._words = cast(IO[bytes], self._process.stdin)
        self._output = cast(IO[bytes], self._process.stdout)
        self._buffer = b""

    def set(self, setting: str) -> None:
        """Change a setting by a command of gdb's console."""
        self.ask(f'-interpreter-exec console "{setting}"')

    def attach(self, pid: int) -> None:
        """Stop all threads of a process."""
        for setting in _SETTINGS:
            self.set(setting)
        self.ask(f"-target-attach {pid}")
        for library in ("/libpython3", r"/libc[-.]"):
            # This fails if Python is statically linked, because there is no separate library then.
            with suppress(DebuggerFailed):
                self.set(f"sharedlibrary {library}")

    def address(self, name: str) -> int | None:
        """Return the address of a function, or None if gdb does not know the function."""
        with suppress(DebuggerFailed):
            found = re.search(r'value="(\d+)', self.ask(f'-data-evaluate-expression "(long)&{name}"'))
            return int(found[1]) if found else None
        return None

    def detach(self) -> None:
        """Detach from the process, which continues."""
        self.ask("-target-detach")

    def threads(self) -> dict[int, int]:
        """Return the number that gdb gives to each thread, by the kernel's thread id."""
        return {int(lwp): int(number) for number, lwp in _THREAD.findall(self.ask("-thread-info"))}

    def call(self, thread: int, function: int, *arguments: int, alone: bool, returns: str = "int") -> int:
        """Call a function in a thread without a timeout, and return its result.

        ``returns`` is "int" or "long". With ``alone``, all other threads stay stopped during the call. A timeout would
        leave the thread in the middle of the call. Raises LeftInCall if the call did not return.
        """
        self.set(f"set scheduler-locking {'on' if alone else 'off'}")
        types = ",".join("long" for _ in arguments) or "void"
        joined = ",".join(f"{argument:#x}" for argument in arguments)
        call = f'-data-evaluate-expression --thread {thread} "(({returns}(*)({types})){function:#x})({joined})"'
        try:
            found = re.search(r'value="(-?\d+)', self.ask(call, seconds=None))
        except DebuggerFailed as error:
            raise LeftInCall(error.reason) from None
        if found is None:
            raise DebuggerFailed("a call did not return a number")
        return int(found[1])

    def write(self, address: int, data: bytes) -> None:
        """Write bytes into the process's memory."""
        for at in range(0, len(data), 2048):
            self.ask(f"-data-write-memory-bytes {address + at:#x} {data[at : at + 2048].hex()}")

    def ask(self, command: str, *, seconds: float | None = COMMAND_SECONDS) -> str:
        """Send a command, and return gdb's answer."""
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
        """End gdb; an attached process continues."""
        with suppress(OSError):
            self._words.close()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.close()

    def _lines(self, seconds: float | None) -> Iterator[bytes]:
        deadline = None if seconds is None else time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            while True:
                *lines, self._buffer = self._buffer.split(b"\n")
                for at, line in enumerate(lines):
                    if line.startswith(b"^"):
                        self._buffer = b"\n".join([*lines[at + 1 :], self._buffer])
                    yield line
                if not selector.select(None if deadline is None else max(0.0, deadline - time.monotonic())):
                    raise DebuggerFailed("it does not answer")
                piece = os.read(self._output.fileno(), 65536)
                if not piece or len(self._buffer) > MAX_LINE:
                    return
                self._buffer += piece


@contextmanager
def attached(path: str, pid: int) -> Iterator[Gdb]:
    """Keep a process stopped in gdb while the block runs, then resume it."""
    gdb = Gdb(path)
    try:
        gdb.attach(pid)
        yield gdb
        gdb.detach()
    finally:
        gdb.close()


def _message(line: bytes) -> str:
    found = re.search(rb'msg="((?:[^"\\]|\\.)*)"', line)
    return found[1].decode("utf-8", "replace").replace('\\"', '"').replace("\\n", " ") if found else "no reason given"
