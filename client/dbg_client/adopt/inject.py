"""Code injection into a process that runs: in which thread, by which call, and at which moment.

The interpreter must be in order where the code runs, and so must the C library:

* The main thread waits in a system call and has given the interpreter's lock away, and nobody has it: the code runs in
  that thread, as in a callback from C.
* Somebody has the lock: the main thread is asked to run the code itself, as it runs the handlers of signals, between
  two instructions of Python. A thread that has C code to do first runs it later.
* The main thread is in C code without the lock and never seen in a system call, such as in an MPI call that spins:
  another thread that waits runs the code, and the main thread is asked as well, since a break-in needs it. The code
  declines in a program that has not loaded `threading`, which would take that thread for the main one.

In any other state nothing is done, and the process is looked at again.

From Python 3.14 on Python itself offers a way: it runs a file in another process of the same version.
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
"""Seconds after which no further look is made."""

LATE_SECONDS = 2.0
"""Seconds after which another thread runs the code, if the main thread never waits."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds that an answer is waited for between two looks, each of which stops the process for a moment: they double."""

NEEDED = (
    *("PyGILState_Check", "PyGILState_Ensure", "PyGILState_Release", "PyRun_SimpleString", "Py_AddPendingCall"),
    *("Py_IsInitialized", "mmap", "munmap"),
)
"""The functions without which a debugger can do nothing."""

REMOTE_SECONDS = 2.0
"""Seconds for the main thread to come to the file: it does so between two instructions, or is in C code."""


class Pipe:
    """A named pipe into which the code answers, in a folder that only this user can change."""

    def __init__(self, folder: str) -> None:
        """Make the pipe in ``folder``."""
        self.path = str(Path(folder) / "answer")
        os.mkfifo(self.path, 0o600)
        # Open for writing, too: the end of a file would be seen between two answers.
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._text = b""

    def answer(self, seconds: float) -> Answer | None:
        """Return the next answer, None if none comes in time."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._text:
            if not select.select([self._descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return None
            with suppress(BlockingIOError):
                self._text += os.read(self._descriptor, 65536)
        line, _, self._text = self._text.partition(b"\n")
        return read_answer(line.decode("utf-8", "replace"))

    def close(self) -> None:
        """Take the pipe away; code that runs later finds nobody to answer to."""
        with suppress(OSError):
            Path(self.path).unlink()
        os.close(self._descriptor)


class Injection:
    """Bring code into one process by gdb. Blocks; one thread."""

    def __init__(self, gdb: str, pid: int, python: TargetPython, code: str, answered: Callable[[float], Answer | None]):
        """``answered`` waits so many seconds at most for what the code answers."""
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
        """Run the code and return its answer. Raises CantAdopt if no moment was good for it, and DebuggerFailed."""
        pause = FIRST_PAUSE
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < PATIENT_SECONDS:
            answer = self._answered(0.0)
            if answer is None:
                self._look(is_late=passed > LATE_SECONDS)
                answer = self._answered(pause)
            if answer is not None and answer.outcome is not Outcome.BUSY:
                return answer
            if answer is not None:
                self._asked = False
            pause = min(pause * 2, LONGEST_PAUSE)
        raise self._no_moment()

    def _look(self, *, is_late: bool) -> None:
        """Stop the process for a moment."""
        with attached(self._gdb, self._pid) as gdb:
            self._act(gdb, gdb.threads(), is_late=is_late)

    def _act(self, gdb: Gdb, threads: Mapping[int, int], *, is_late: bool) -> None:
        """Do what the threads allow at this moment; the process stands. Raises CantAdopt for a Python without names."""
        found = {name: gdb.address(name) for name in NEEDED}
        self._functions = {name: address for name, address in found.items() if address is not None}
        if missing := [name for name in NEEDED if name not in self._functions]:
            why = f"has a Python that was stripped of {missing[0]}, so that nothing can be called in it"
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
            # A thread that waits may be borrowed for the call. Alone, the main thread asks itself: the queue is locked
            # only while another call is entered, or while the main thread takes one out.
            self._ask_main(gdb, others[0] if others else main)
        if is_late and self._holder is None and others:
            self._run_in(gdb, others[0])

    def _waits(self, thread: int) -> bool:
        found = system_call(self._pid, thread)
        if found is None or not waits_safely(self._machine, found[0]):
            return False
        if found[1] in self._memory:
            # A thread that waits for the interpreter's lock would wait for it a second time in the code that runs in
            # it: the lock's waiters are counted, and each must leave before the next group of them is woken.
            return False
        # What is read from a file may be a library that is being loaded.
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
        """Have the main thread run the code when it comes to it; the memory of the code stays until then, and after."""
        address = self._put(gdb, thread)
        if address:
            run = self._functions["PyRun_SimpleString"]
            self._asked = gdb.call(thread, self._functions["Py_AddPendingCall"], run, address, alone=False) == 0

    def _put(self, gdb: Gdb, thread: int) -> int:
        """Put the code into memory that the kernel gives, not the C library, and return its address or 0."""
        arguments = (0, len(self._code), MAP_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0)
        address = gdb.call(thread, self._functions["mmap"], *arguments, alone=True, returns="long")
        if address in (-1, 0):
            return 0
        gdb.write(address, self._code)
        return address

    def _no_moment(self) -> CantAdopt:
        why = "was never seen where code can be run in it without danger"
        if self._holder is not None:
            thread = "its main thread" if self._holder == self._pid else f"its thread {self._holder}"
            why = f"is in C code and keeps the interpreter's lock, in {thread}, so that no Python code can run in it"
        later = (
            "it becomes a rank as soon as its main thread runs Python code again" if self._asked else "try again later"
        )
        return CantAdopt(
            f"process {self._pid}", why, f"{later}; `py-spy dump --native --pid {self._pid}` shows where it is"
        )


def can_remote_exec(version: tuple[int, int] | None) -> bool:
    """Tell whether this Python can have one of that version run a file."""
    return hasattr(sys, "remote_exec") and version == sys.version_info[:2]


def run_remotely(pid: int, folder: str, code: str, answered: Callable[[float], Answer | None]) -> Answer | None:
    """Have the main thread of a process run the code; return its answer, None if it is not run soon.

    Raises OSError or RuntimeError if the process or the kernel forbids it. A file that was not run stays in ``folder``:
    a main thread that comes to it later would complain of a file that is gone.
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
