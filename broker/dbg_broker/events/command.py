"""The command of ``--on-event``: run for each event, with the event's document on its stdin.

Commands run in threads of their own, since the start of a program blocks where its disk hangs. Events wait in a queue
with a bound; beyond it they are left out and counted, and the next event's document has the count.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import select
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence

from dbg_broker.events.event import Event, document
from dbg_wire.errors import printable
from dbg_wire.finding.environment import TOKEN

logger = logging.getLogger("dbg_broker")

LIMIT_SECONDS = 30.0
"""Seconds for a command and its session's processes; a chat that takes longer is down."""

GRACE_SECONDS = 2.0
"""Seconds between SIGTERM and SIGKILL."""

AT_ONCE = 4
"""Commands that run at the same time: one that waits for its network holds up nothing else."""

MAX_WAITING = 100
"""Events that wait for a command; more are old by the time they are told."""

END_SECONDS = 1.0
"""Seconds given to commands that run when the broker ends."""

MAX_OUTPUT = 4096
"""Bytes of a command's output that reach the log; the rest is read and dropped."""

_KEPT_OUT = (TOKEN, "NOTIFY_SOCKET", "WATCHDOG_", "LISTEN_")
"""Begins of variables that a command does not get: secrets, and what systemd has told this process alone."""


class OnEvent:
    """The command of one broker; :meth:`emit` may be called from any thread and never waits."""

    def __init__(
        self,
        words: Sequence[str],
        environ: Mapping[str, str],
        *,
        directory: str | None = None,
        limit: float = LIMIT_SECONDS,
        grace: float = GRACE_SECONDS,
    ) -> None:
        """Begin to wait for events.

        ``words`` are the program and its arguments, which runs in ``directory`` (None: where the broker does);
        ``limit`` and ``grace`` are seconds.
        """
        self._words = list(words)
        self._directory = directory
        self._environ = {name: value for name, value in environ.items() if not name.startswith(_KEPT_OUT)}
        self._limit, self._grace = limit, grace
        self._waiting: queue.Queue[Event | None] = queue.Queue(MAX_WAITING)
        self._lock = threading.Lock()
        self._left_out = 0
        self._running: set[int] = set()
        self._is_over = False
        self._threads = [
            threading.Thread(target=self._work, name="dbg-broker-event", daemon=True) for _ in range(AT_ONCE)
        ]
        for thread in self._threads:
            thread.start()

    def emit(self, event: Event) -> None:
        """Have the command run for an event; it is left out, and counted, if too many wait."""
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            with self._lock:
                self._left_out += 1

    def close(self) -> None:
        """Drop what waits, give running commands END_SECONDS, and end what is left of them then."""
        self._is_over = True
        with contextlib.suppress(queue.Empty):
            while True:
                self._waiting.get_nowait()
        for _ in self._threads:
            with contextlib.suppress(queue.Full):
                self._waiting.put_nowait(None)
        end = time.monotonic() + END_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        with self._lock:
            for group in self._running:
                _signal(group, signal.SIGTERM)

    def _work(self) -> None:
        while not self._is_over and (event := self._waiting.get()) is not None:
            with self._lock:
                left_out, self._left_out = self._left_out, 0
            problem = self._run(document(event, left_out))
            if problem:
                logger.warning("--on-event: %s %s", printable(self._words[0]), problem)

    def _run(self, told: bytes) -> str:
        """Run the command once; return what went wrong as the end of a sentence, empty if nothing did."""
        try:
            process = subprocess.Popen(
                self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self._environ,
                cwd=self._directory,
                start_new_session=True,
            )
        except OSError as error:
            return f"can't be run ({error.strerror})"
        with self._lock:
            self._running.add(process.pid)
        try:
            return self._watch(process, told)
        finally:
            with self._lock:
                self._running.discard(process.pid)

    def _watch(self, process: subprocess.Popen[bytes], told: bytes) -> str:
        deadline = time.monotonic() + self._limit
        stdin, stdout = process.stdin, process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("a process without its pipes")
        # A command that does not read its event is none the worse for it; a pipe takes the whole document at once.
        with contextlib.suppress(OSError), stdin:
            stdin.write(told)
        with stdout:
            output, has_ended = _read(stdout.fileno(), deadline)
            if not has_ended:
                # Its group is ended before it is waited for: until then no other process has its number.
                _signal(process.pid, signal.SIGTERM)
                more, has_ended = _read(stdout.fileno(), time.monotonic() + self._grace)
                output = (output + more)[:MAX_OUTPUT]
                _signal(process.pid, signal.SIGKILL)
                process.wait()
                return f"took longer than {self._limit:g} s and was ended{_last_line(output)}"
        status = self._status(process, deadline)
        for line in output.decode("utf-8", "replace").splitlines():
            logger.info("--on-event says: %s", printable(line, MAX_OUTPUT))
        return f"{status}{_last_line(output)}" if status else ""

    def _status(self, process: subprocess.Popen[bytes], deadline: float) -> str:
        """Return how a command has failed that has closed its output; empty if it has not."""
        try:
            status = process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            _signal(process.pid, signal.SIGKILL)
            process.wait()
            return f"took longer than {self._limit:g} s and was ended"
        if status == 0:
            return ""
        return f"exited with status {status}" if status > 0 else f"was ended by signal {-status}"


def _read(descriptor: int, deadline: float) -> tuple[bytes, bool]:
    """Return the first bytes of an output, and whether it has ended before the deadline."""
    kept = b""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while (left := deadline - time.monotonic()) > 0 and poll.poll(left * 1000):
        data = os.read(descriptor, MAX_OUTPUT)
        if not data:
            return kept, True
        kept = (kept + data)[:MAX_OUTPUT]
    return kept, False


def _last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").split("\n")
    said = next((line for line in reversed(lines) if line.strip()), "")
    return f": {printable(said.strip(), 200)}" if said else ""


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(group, number)
