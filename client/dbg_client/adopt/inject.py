"""Code injection into a running process: choose the thread, the call, and the time.

The interpreter and the C library must both be in a consistent state where the code runs. The cases are:

* The main thread waits in a system call, and no thread has the interpreter's lock: the code runs in the main thread,
  like a callback from C.
* A thread has the lock: the main thread is asked to run the code between two Python instructions, like a signal
  handler. If the main thread is in C code, it runs the code later.
* No thread has the lock, and the main thread is never seen in a system call, for example because it spins in an MPI
  call. Then another thread, which waits, runs the code. The main thread is asked as well, because otherwise the rank
  can't be interrupted. Before Python 3.13 the code does nothing if the program has not imported `threading`, because
  `threading` takes the first thread that imports it as the main thread.

In any other state nothing is done, and the process is checked again later.

Python 3.14 and newer has `sys.remote_exec` for code injection: it makes another process of the same version run a file.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dbg_client.adopt.gdb import MAP_PRIVATE_ANONYMOUS, MAP_READ_WRITE, Gdb, attached
from dbg_client.adopt.payload import Answer, Outcome, read_answer
from dbg_client.adopt.process import CantAdopt, TargetPython, is_file_on_disk, system_call, waits_safely

PATIENT_SECONDS = 8.0
"""Time after which the injection gives up, if it has found no safe state of the process, in seconds."""

LATE_SECONDS = 2.0
"""Time after which another thread runs the code if the main thread never waits, in seconds."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""First and longest pause between two checks, in seconds. Pauses double, because each check stops the process."""

NEEDED = (
    *("PyGILState_Check", "PyGILState_Ensure", "PyGILState_Release", "PyRun_SimpleString", "Py_AddPendingCall"),
    *("Py_IsInitialized", "mmap", "munmap"),
)
"""Functions that the debugger must find in the process."""

REMOTE_SECONDS = 2.0
"""Timeout for the main thread to run the file, in seconds; it can't run the file while it is in C code."""


class Pipe:
    """A named pipe for the code's answer, in a folder that only this user can change."""

    def __init__(self, folder: str) -> None:
        """Create the pipe in ``folder``."""
        self.path = str(Path(folder) / "answer")
        os.mkfifo(self.path, 0o600)
        # Open for writing as well, because otherwise reads would return EOF between two answers.
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._text = b""

    def answer(self, seconds: float) -> Answer | None:
        """Return the next answer, or None if it is invalid or does not arrive in time."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._text:
            if not select.select([self._descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return None
            with suppress(BlockingIOError):
                self._text += os.read(self._descriptor, 65536)
        line, _, self._text = self._text.partition(b"\n")
        return read_answer(line.decode("utf-8", "replace"))

    def close(self) -> None:
        """Remove the pipe; code that runs later cannot answer."""
        with suppress(OSError):
            Path(self.path).unlink()
        os.close(self._descriptor)


class Injection:
    """Injection of code into one process by gdb. Blocks; belongs to one thread."""

    def __init__(self, gdb: str, pid: int, python: TargetPython, code: str, answered: Callable[[float], Answer | None]):
        """Prepare an injection. ``answered`` waits for the code's answer for a number of seconds at most."""
        self._gdb = gdb
        self._pid = pid
        self._functions: dict[str, int] = {}
        self._memory = python.memory
        self._code = code.encode("ascii") + b"\0"
        self._answered = answered
        self._asked = False
        self._holder: int | None = None
        self._machine = os.uname().machine

    def run(self) -> Answer:
        """Run the code and return its answer. Raises CantAdopt if there was no safe time for it, and DebuggerFailed."""
        pause = FIRST_PAUSE
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < PATIENT_SECONDS:
            answer = self._answered(0.0)
            if answer is None:
                self._check(is_late=passed > LATE_SECONDS)
                answer = self._answered(pause)
            if answer is not None and answer.outcome is not Outcome.BUSY:
                return answer
            if answer is not None:
                self._asked = False
            pause = min(pause * 2, LONGEST_PAUSE)
        raise self._no_moment()

    def _check(self, *, is_late: bool) -> None:
        """Stop the process briefly, and run the code if the process is in a suitable state."""
        with attached(self._gdb, self._pid) as gdb:
            self._act(gdb, gdb.threads(), is_late=is_late)

    def _act(self, gdb: Gdb, threads: Mapping[int, int], *, is_late: bool) -> None:
        """Run the code, or ask the main thread to run it, if the stopped threads allow that. Raises CantAdopt."""
        found = {name: gdb.address(name) for name in NEEDED}
        self._functions = {name: address for name, address in found.items() if address is not None}
        if missing := [name for name in NEEDED if name not in self._functions]:
            why = f"has a Python that was stripped of {missing[0]}, so nothing can be called in it"
            raise CantAdopt(f"process {self._pid}", why, "start it by `python -m dbg_agent`")
        main = threads[self._pid]
        if not gdb.call(main, self._functions["Py_IsInitialized"], alone=True):
            return
        waiting = [lwp for lwp in threads if self._waits(lwp)]
        check = self._functions["PyGILState_Check"]
        self._holder = next((lwp for lwp in threads if gdb.call(threads[lwp], check, alone=True)), None)
        others = [threads[lwp] for lwp in waiting if lwp not in (self._holder, self._pid)]
        if self._holder is None and self._pid in waiting:
            self._run_in(gdb, main)
            return
        if not self._asked:
            # Another waiting thread adds the call to the interpreter's queue. If no other thread waits, the main thread
            # adds the call. It would hang if it held the queue's lock, but it holds this lock only while it adds or
            # takes out a call.
            self._ask_main(gdb, others[0] if others else main)
        if is_late and self._holder is None and others:
            self._run_in(gdb, others[0])

    def _waits(self, thread: int) -> bool:
        found = system_call(self._pid, thread)
        if found is None or not waits_safely(self._machine, found[0]):
            return False
        if found[1] in self._memory:
            # This thread waits for the interpreter's lock. The code would make the thread wait for the lock a second
            # time, and the thread might hang: the lock counts its waiters, and wakes the next group only after all
            # waiters have returned.
            return False
        # A thread that reads a file from disk may be loading a library, so it is not used.
        is_read = found[0] == (0 if self._machine == "x86_64" else 63)
        return not (is_read and is_file_on_disk(self._pid, found[1]))

    def _run_in(self, gdb: Gdb, thread: int) -> None:
        functions = self._functions
        address = self._put(gdb, thread)
        if not address:
            return
        state = gdb.call(thread, functions["PyGILState_Ensure"], alone=False)
        gdb.call(thread, functions["PyRun_SimpleString"], address, alone=False)
        gdb.call(thread, functions["PyGILState_Release"], state, alone=False)
        gdb.call(thread, functions["munmap"], address, len(self._code), alone=True)

    def _ask_main(self, gdb: Gdb, thread: int) -> None:
        """Queue the code for the main thread; the code's memory is never freed, because it may run at any time."""
        address = self._put(gdb, thread)
        if address:
            run = self._functions["PyRun_SimpleString"]
            self._asked = gdb.call(thread, self._functions["Py_AddPendingCall"], run, address, alone=False) == 0

    def _put(self, gdb: Gdb, thread: int) -> int:
        """Write the code into new memory of ``mmap``, not of ``malloc``; return its address, or 0 without memory."""
        arguments = (0, len(self._code), MAP_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0)
        address = gdb.call(thread, self._functions["mmap"], *arguments, alone=True, returns="long")
        if address in (-1, 0):
            return 0
        gdb.write(address, self._code)
        return address

    def _no_moment(self) -> CantAdopt:
        why = "never reached a state in which code can be run safely"
        if self._holder is not None:
            thread = "its main thread" if self._holder == self._pid else f"its thread {self._holder}"
            why = f"is in C code and holds the interpreter's lock, in {thread}, so no Python code can run in it"
        later = (
            "it becomes a rank as soon as its main thread runs Python code again" if self._asked else "try again later"
        )
        return CantAdopt(
            f"process {self._pid}", why, f"{later}; `py-spy dump --native --pid {self._pid}` shows where it is"
        )


def can_remote_exec(version: tuple[int, int] | None) -> bool:
    """Return True if this Python can make a process of Python ``version`` run a file."""
    return hasattr(sys, "remote_exec") and version == sys.version_info[:2]


def run_remotely(pid: int, folder: str, code: str, answered: Callable[[float], Answer | None]) -> Answer | None:
    """Run the code in the main thread of a process; return its answer, or None without an answer in REMOTE_SECONDS.

    Raises OSError or RuntimeError if the process or the kernel forbids it. A file that has not run stays in ``folder``,
    because a main thread that runs it later would report a missing file.
    """
    script = Path(folder) / "adopt.py"
    script.write_text(code, encoding="ascii")
    remote_exec: Any = getattr(sys, "remote_exec")  # noqa: B009 - unknown to the types of older releases
    try:
        remote_exec(pid, str(script))
    except (OSError, RuntimeError):
        script.unlink()
        raise
    answer = answered(REMOTE_SECONDS)
    if answer is not None:
        script.unlink()
    return answer
