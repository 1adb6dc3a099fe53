"""Children of a test: started with logs, waited for by their output or their end, and all ended after the test."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from tests.support.holder import wait_without_reaping
from tests.support.time_unit import seconds

MARK = "TEST_PROCESSES_MARK"
"""Variable that every process started here has and hands down; it identifies processes that have left their parent."""

GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL at the end of a test: more than any of our programs takes to say goodbye."""

TAIL = 4000
"""Characters of each log that a failed test's report repeats; the whole is in the file."""

USUAL_WAIT = 20.0
"""Seconds that a test waits if it gives no limit: several starts of an interpreter on a busy machine."""

CHUNK = 1 << 20
"""Bytes read at once: more than a full pipe has."""

Stream = Literal["stdout", "stderr"]


def _limit(timeout: float | None) -> float:
    return seconds(USUAL_WAIT) if timeout is None else timeout


def with_death_signal(command: Sequence[str], name: str = "KILL") -> list[str]:
    """Return ``command`` such that it gets signal ``name`` when the tests themselves are killed.

    The kernel sends the signal when the thread ends that has started the command. So only the main thread asks for it.
    """
    setpriv = shutil.which("setpriv") if threading.current_thread() is threading.main_thread() else None
    return [setpriv, "--pdeathsig", name, "--", *command] if setpriv else list(command)


def run_command(
    command: Sequence[str], env: Mapping[str, str], timeout: float, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command until it ends, with nothing on its stdin, and return its status and outputs."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=env,
        timeout=timeout,
        cwd=cwd,
    )


class Child:
    """One process started by a test, in a session of its own; a thread reads its output and notices its end.

    The process number stays taken until the test has ended, even after the child's death, so that no signal of the
    test reaches another process.
    """

    def __init__(self, name: str, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.pid = popen.pid
        self.log = log
        self._popen = popen
        self._changed = threading.Condition()
        self._log_file = log.open("wb", buffering=0)
        self._outputs = {"stdout": bytearray(), "stderr": bytearray()}
        self._stop, self._stopped = os.pipe()
        self.exit_status: int | None = None
        """None while the child lives, then its exit status, or the negated number of the signal that ended it."""
        self._thread = threading.Thread(target=self._follow, name=f"output of {name}", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        """Read until both streams have ended, as a grandchild may hold them open, or until the child is reaped."""
        end = os.pidfd_open(self.pid)
        assert self._popen.stdout is not None
        assert self._popen.stderr is not None
        streams = {self._popen.stdout.fileno(): "stdout", self._popen.stderr.fileno(): "stderr"}
        poll = select.poll()
        for number in (*streams, end, self._stop):
            poll.register(number, select.POLLIN)
        for number in streams:
            os.set_blocking(number, False)
        with self._popen.stdout, self._popen.stderr:
            while streams or self.exit_status is None:
                ready = {number for number, _ in poll.poll()}
                with self._changed:
                    # All output is read before the end is told.
                    for number in tuple(streams) if end in ready else ready & streams.keys():
                        if not self._read(number, self._outputs[streams[number]]):
                            poll.unregister(number)
                            del streams[number]
                    if end in ready:
                        self.exit_status = wait_without_reaping(self.pid)
                        poll.unregister(end)
                    self._changed.notify_all()
                if self._stop in ready:
                    break
        os.close(end)

    def _read(self, number: int, output: bytearray) -> bool:
        """Read the bytes that are there, all that a pipe holds; return False at the end of the stream."""
        try:
            data = os.read(number, CHUNK)
        except BlockingIOError:
            return True
        output += data
        self._log_file.write(data)
        return bool(data)

    def text(self, stream: Stream = "stdout") -> str:
        with self._changed:
            return self._outputs[stream].decode(errors="replace")

    def wait_for_output(self, pattern: str, timeout: float | None = None, stream: Stream = "stdout") -> re.Match[str]:
        """Wait until ``pattern``, a regular expression, matches the child's output to ``stream``; return the match.

        Fail at once if the child ends without a match.
        """
        sought = re.compile(pattern, re.MULTILINE)

        def found() -> re.Match[str] | None:
            return sought.search(self._outputs[stream].decode(errors="replace"))

        with self._changed:
            self._changed.wait_for(lambda: bool(found()) or self.exit_status is not None, _limit(timeout))
            match = found()
        if match is None:
            state = "still runs" if self.exit_status is None else f"ended with status {self.exit_status}"
            raise AssertionError(f"{self.name} {state} and did not write {pattern!r} to {stream}\n{self.tail()}")
        return match

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the child has ended and return its exit status; fail after ``timeout`` seconds."""
        if not self.ends_within(_limit(timeout)):
            raise AssertionError(f"{self.name} (pid {self.pid}) still runs\n{self.tail()}")
        assert self.exit_status is not None
        return self.exit_status

    def ends_within(self, timeout: float) -> bool:
        """Wait until the child has ended, for ``timeout`` seconds at most, and return whether it has."""
        with self._changed:
            return self._changed.wait_for(lambda: self.exit_status is not None, timeout)

    def signal(self, number: int) -> None:
        """Send the child a signal, which does nothing once the child is dead."""
        os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask the child to end (SIGTERM), also if it is suspended."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-TAIL:]

    def reap(self) -> None:
        """End the rest of the process group and release the process number; only after the child has ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()
        os.close(self._stopped)
        self._thread.join()
        os.close(self._stop)
        self._log_file.close()


class Processes:
    """All processes that one test has started; used from the test's thread.

    ``logs`` gets one file per child. ``end_all`` ends the children, their process groups, and their descendants that
    have moved to another session. It never ends a process that was not started here.
    """

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.mark = uuid.uuid4().hex
        self._children: list[Child] = []

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        death_signal: str = "KILL",
    ) -> Child:
        """Start ``command`` with stdin at /dev/null; its output goes to ``<name>.log`` and can be waited for."""
        self.logs.mkdir(parents=True, exist_ok=True)
        marked = self.marked(os.environ if env is None else env)
        popen = subprocess.Popen(
            with_death_signal(command, death_signal),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=marked,
            cwd=cwd,
            start_new_session=True,
        )
        child = Child(name, popen, self._new_log(name))
        self._children.append(child)
        return child

    def _new_log(self, name: str) -> Path:
        taken = sum(1 for child in self._children if child.name == name)
        return self.logs / (f"{name}.log" if not taken else f"{name}.{taken + 1}.log")

    def marked(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return ``environ`` with the mark by which strays of this test are found."""
        return dict(environ) | {MARK: self.mark}

    def strays(self) -> list[int]:
        """Return the processes that carry this test's mark and are not its children, in any session."""
        children = {child.pid for child in self._children}
        needle = f"{MARK}={self.mark}".encode()
        return [pid for pid in _all_processes() if pid not in children and needle in _environment_of(pid)]

    def end_all(self) -> None:
        """End everything that was started here, and return when it has ended."""
        alive = [child for child in self._children if child.exit_status is None]
        for child in alive:
            child.terminate()
        deadline = time.monotonic() + seconds(GRACE)
        for child in alive:
            if not child.ends_within(max(0.0, deadline - time.monotonic())):
                child.kill()
                child.wait()
        for child in self._children:
            child.reap()
        self._children.clear()
        self._kill_strays()

    def _kill_strays(self) -> None:
        needle = f"{MARK}={self.mark}".encode()
        for pid in self.strays():
            try:
                handle = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            # Before the handle was open, the number may have passed to another process; from now on it can't.
            if needle in _environment_of(pid):
                _kill_by(handle)
            os.close(handle)


def _kill_by(handle: int) -> None:
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:
        return
    select.select([handle], [], [], seconds(GRACE))


def _all_processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _environment_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
