"""A conversation with gdb about one process, in gdb's language for programs.

gdb gets no symbols: what it calls is named by address, so that it starts in a quarter of a second and reads no file of
the program but its C library. Its own session keeps a Ctrl-C at the terminal away from it: a debugger that ends while a
call is under way would leave the thread in the midst of it.
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

from dbg_client.adopt.errors import DebuggerFailed, NotAttached

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
        theirs, words = os.pipe()
        said, their_answers = os.pipe()
        self._words, self._said = os.fdopen(words, "wb"), os.fdopen(said, "rb")
        try:
            self._process = subprocess.Popen(
                [path, *_OWN, *settings],
                stdin=theirs,
                stdout=their_answers,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "LC_ALL": "C"},
            )
        finally:
            os.close(theirs)
            os.close(their_answers)
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

    def registers(
        self, thread: int, names: Sequence[str], *, seconds: float | None = COMMAND_SECONDS
    ) -> dict[str, int]:
        """Return what registers of a thread hold, without a sign."""
        if not self._register_names:
            self._register_names = re.findall(r'"(\w*)"', self.ask("-data-list-register-names"))
        try:
            numbers = [self._register_names.index(name) for name in names]
            wanted = " ".join(map(str, numbers))
            answer = self.ask(f"-data-list-register-values --thread {thread} --frame 0 x {wanted}", seconds=seconds)
            values = {int(number): int(value, 16) for number, value in _VALUE.findall(answer)}
            return {name: values[number] for name, number in zip(names, numbers, strict=True)}
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
