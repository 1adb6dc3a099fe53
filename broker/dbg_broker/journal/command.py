"""The command of ``--on-event``: run for each event, with the event's document on its stdin.

It runs in a thread of its own, because the start of a program blocks if its disk hangs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

from dbg_broker.journal.events import Event, document
from dbg_dial.home import TOKEN
from dbg_wire.errors import printable
from dbg_wire.records.ranks import End

logger = logging.getLogger("dbg_broker")

LIMIT_SECONDS = 30.0
"""Timeout of a command and its process group, in seconds; a chat service that takes longer is down."""

MAX_OUTPUT = 4096
"""Maximum number of bytes of a command's output in the log; the rest is read and dropped."""

_KEPT_OUT = (TOKEN, "NOTIFY_SOCKET", "WATCHDOG_", "LISTEN_")
"""Prefixes of variables that a command does not get: secrets, and variables of systemd for the broker's process."""


class OnEvent:
    """The command of one broker; ``argv`` are the program and its arguments.

    It runs on the broker's host. ``limit`` is in seconds.
    """

    def __init__(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        *,
        limit: float = LIMIT_SECONDS,
    ) -> None:
        self._argv, self._limit = list(argv), limit
        self._environ = {name: value for name, value in environ.items() if not name.startswith(_KEPT_OUT)}
        self._running: int | None = None
        self._is_over = False

    def put(self, events: list[Event], lost: int) -> bool:
        """Run the command for each event; the first document contains ``lost``, the number of events lost before."""
        for event in events if not self._is_over else ():
            problem = self._run(document(event, lost))
            lost = 0
            if problem and not self._is_over:
                logger.warning("--on-event: %s %s", printable(self._argv[0]), problem)
        return True

    def end(self) -> None:
        """Start no more commands, and terminate the running one."""
        self._is_over = True
        if (group := self._running) is not None:
            _signal(group, signal.SIGTERM)

    def _run(self, report: bytes) -> str:
        """Run the command once. Return the failure as the end of a sentence, or an empty string."""
        try:
            process = subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self._environ,
                start_new_session=True,
            )
        except OSError as error:
            return f"can't be run ({error.strerror})"
        self._running = process.pid
        if self._is_over:
            _signal(process.pid, signal.SIGTERM)
        try:
            output, status = self._watch(process, report)
        finally:
            self._running = None
        lines = [line.strip() for line in output.decode("utf-8", "replace").split("\n") if line.strip()]
        if status == 0:
            for line in lines:
                logger.info("--on-event output: %s", printable(line, MAX_OUTPUT))
            return ""
        last = f": {printable(lines[-1], 200)}" if lines else ""
        return f"{self._failure(status)}{last}"

    def _failure(self, status: int | None) -> str:
        if status is None:
            return f"took longer than {self._limit:g} s and was ended"
        return End(exit=status).sentence

    def _watch(self, process: subprocess.Popen[bytes], report: bytes) -> tuple[bytes, int | None]:
        """Return the output, and the exit status or None if the command had to be killed."""
        deadline = time.monotonic() + self._limit
        stdin, stdout = process.stdin, process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("the command was started without pipes")
        # A command that ends without reading its event is no error. The write does not block, because the document fits
        # into the pipe.
        with contextlib.suppress(OSError), stdin:
            stdin.write(report)
        with stdout:
            output, has_ended = _read(stdout.fileno(), deadline)
        with contextlib.suppress(subprocess.TimeoutExpired):
            if has_ended:
                return output, process.wait(max(0.0, deadline - time.monotonic()))
        # Kill the group before waiting for the process: until the wait, no other process can get the group's number.
        _signal(process.pid, signal.SIGKILL)
        process.wait()
        return output, None


def _read(descriptor: int, deadline: float) -> tuple[bytes, bool]:
    """Return the first bytes of an output, and whether it ended before the deadline."""
    kept = b""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while (left := deadline - time.monotonic()) > 0 and poll.poll(left * 1000):
        data = os.read(descriptor, MAX_OUTPUT)
        if not data:
            return kept, True
        kept = (kept + data)[:MAX_OUTPUT]
    return kept, False


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(group, number)
