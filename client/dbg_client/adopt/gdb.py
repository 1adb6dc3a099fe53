"""A client of gdb's machine interface (MI), for one process.

gdb reads the names of functions in the program's own file, in Python's library and in the C library. It reads nothing
else, so that it starts in a quarter of a second. Its own session keeps a Ctrl-C at the terminal away from it: a gdb
that ends while a call is under way would leave the thread in the midst of it.

gdb writes the extended state (xmm, ymm, AMX tiles) as a whole after each call of a function. Before gdb 14 its buffer
is too small for a processor with AMX, and the kernel refuses the write: such a gdb can't adopt there.
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

_SETTINGS = (
    "set confirm off",
    "set unwindonsignal off",
    # A signal that stopped the process would break off a call in its midst; the program gets its signals as always.
    "handle all nostop noprint pass",
    "handle SIGINT nostop noprint pass",
)

_THREAD = re.compile(r'\{id="(\d+)",target-id="[^"]*?(?:LWP|process) (\d+)')

MAP_READ_WRITE, MAP_PRIVATE_ANONYMOUS = 0x3, 0x22

_AMX_VERSION = 14
"""The first gdb that keeps the registers of a processor with AMX."""


def find_gdb() -> str | None:
    """Return the path of gdb, None if there is none."""
    return shutil.which("gdb")


def loses_registers(gdb: str) -> bool:
    """Return whether this gdb can't put back all registers of this host's processor. Blocks for its start."""
    with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
        flags = next((line for line in lines if line.startswith("flags")), "").split()
    if "amx_tile" not in flags:
        return False
    said = subprocess.run([gdb, "--version"], capture_output=True, text=True, check=False).stdout
    return major_version(said) < _AMX_VERSION


def major_version(said: str) -> int:
    """Return the major version from what ``gdb --version`` says; 0 if it says none."""
    found = re.match(r"GNU gdb.* (\d+)\.", said)
    return int(found[1]) if found else 0


class DebuggerFailed(ReasonedError):
    """Say what gdb could not do, in its own words."""

    sentence = "gdb failed: {reason}; the process goes on as it was"


class LeftInCall(DebuggerFailed):
    """Say that a thread was left in the midst of a call: gdb was ended from outside, or the process has ended."""

    sentence = "gdb failed: {reason}; the process was in the midst of a call, and will not survive it"


class Gdb:
    """One gdb, attached to one process; the methods block, and raise DebuggerFailed for what gdb refuses."""

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
        self._said = cast(IO[bytes], self._process.stdout)
        self._buffer = b""

    def set(self, setting: str) -> None:
        """Give gdb a setting, in the words of its console."""
        self.ask(f'-interpreter-exec console "{setting}"')

    def attach(self, pid: int) -> None:
        """Stop all threads of a process."""
        for setting in _SETTINGS:
            self.set(setting)
        self.ask(f"-target-attach {pid}")
        for library in ("/libpython3", r"/libc[-.]"):
            # A Python that is one file has no library of its own.
            with suppress(DebuggerFailed):
                self.set(f"sharedlibrary {library}")

    def address(self, name: str) -> int | None:
        """Return where a function is, None for one that those files don't show."""
        with suppress(DebuggerFailed):
            found = re.search(r'value="(\d+)', self.ask(f'-data-evaluate-expression "(long)&{name}"'))
            return int(found[1]) if found else None
        return None

    def detach(self) -> None:
        """Let the process go on without gdb."""
        self.ask("-target-detach")

    def threads(self) -> dict[int, int]:
        """Return gdb's numbers of the threads by those of the kernel."""
        return {int(lwp): int(number) for number, lwp in _THREAD.findall(self.ask("-thread-info"))}

    def call(self, thread: int, function: int, *arguments: int, alone: bool, returns: str = "int") -> int:
        """Have gdb call a function in a thread, and return the number that it returns, however long it takes.

        ``returns`` is "int" or "long". With ``alone`` all other threads stand meanwhile. Nothing may end this wait: it
        would leave the thread there. Raises LeftInCall if the thread did not come back to where it was.
        """
        self.set(f"set scheduler-locking {'on' if alone else 'off'}")
        types = ",".join("long" for _ in arguments) or "void"
        words = ",".join(f"{argument:#x}" for argument in arguments)
        call = f'-data-evaluate-expression --thread {thread} "(({returns}(*)({types})){function:#x})({words})"'
        try:
            found = re.search(r'value="(-?\d+)', self.ask(call, seconds=None))
        except DebuggerFailed as error:
            raise LeftInCall(error.reason) from None
        if found is None:
            raise DebuggerFailed("a call has returned no number")
        return int(found[1])

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
        gdb.attach(pid)
        yield gdb
        gdb.detach()
    finally:
        gdb.close()


def _message(line: bytes) -> str:
    found = re.search(rb'msg="((?:[^"\\]|\\.)*)"', line)
    return found[1].decode("utf-8", "replace").replace('\\"', '"').replace("\\n", " ") if found else "no reason given"
