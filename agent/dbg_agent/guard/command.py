"""One command beside the rank: its start, its output within bounds, and its end with its whole session."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from dbg_dial.tcp import within
from dbg_wire.records.beside import MAX_FIRST, MAX_LAST, CommandEnd

TERM_SECONDS = 0.3
"""Seconds between SIGTERM and SIGKILL for a command that is ended: a tracer lets go of its process within them."""

START_SECONDS = 0.5
"""Seconds that the end of a command waits for its start: it takes milliseconds, or its file system does not answer."""

PIPE_SECONDS = 0.3
"""Seconds that output is read for after the command has ended, if something that it has started holds its pipe."""


class CantStart(Exception):
    """A command that can't be started, with the reason as a sentence."""


class Output:
    """The first and the last part of what a command prints, and the number of bytes between them."""

    def __init__(self, first: int = MAX_FIRST, last: int = MAX_LAST) -> None:
        """Begin; ``first`` and ``last`` are how many bytes are kept of either."""
        self._most = first, last
        self._first = bytearray()
        self._last = bytearray()
        self._total = 0

    def feed(self, data: bytes) -> None:
        """Take in what was printed."""
        self._total += len(data)
        room = self._most[0] - len(self._first)
        self._first += data[:room]
        self._last += data[max(0, room) :]
        del self._last[: max(0, len(self._last) - self._most[1])]

    @property
    def left_out(self) -> int:
        """Return how many bytes are not kept."""
        return self._total - len(self._first) - len(self._last)

    def text(self) -> str:
        """Return what is kept, with a line that tells of what is not."""
        first, last = (bytes(part).decode("utf-8", "replace") for part in (self._first, self._last))
        return f"{first}\n[{self.left_out:,} bytes are left out]\n{last}" if self.left_out else first + last


class Command:
    """A process in a session of its own; all methods belong to the event loop's thread.

    A thread starts the process and waits for it, since the file system that holds the program may not answer.
    """

    def __init__(
        self, words: Sequence[str], environ: Mapping[str, str], directory: str, output: Output | None = None
    ) -> None:
        """Start a command. Raise RuntimeError or OSError if there is no thread or no pipe for it."""
        self.output = output or Output()
        self._loop = asyncio.get_running_loop()
        self._words, self._environ, self._directory = words, environ, directory
        self._process: subprocess.Popen[bytes] | None = None
        self._status: asyncio.Future[int] = self._loop.create_future()
        self._is_begun = asyncio.Event()
        self._at_end = asyncio.Event()
        self._is_over = False
        self._may_reap = threading.Event()
        self._read, write = os.pipe()
        os.set_blocking(self._read, False)
        self._loop.add_reader(self._read, self._receive)
        threading.Thread(target=self._run, args=(write,), name="dbg-guard-command", daemon=True).start()

    async def finish(self, seconds: float) -> CommandEnd:
        """Wait until the command has ended, for so many seconds at most, and end all that is left of it.

        Raise CantStart if it can't be started.
        """
        try:
            await asyncio.wait({self._status}, timeout=seconds)
            if not self._status.done():
                return CommandEnd(ended=f"after {seconds:.3g} s")
            status = self._status.result()
            await _within(PIPE_SECONDS, self._at_end)
            return CommandEnd(status=status)
        finally:
            await self._end()

    # ---------------------------------------------------------------------------------------------------------- inner

    async def _end(self) -> None:
        self._is_over = True
        try:
            # The process may run though its thread has not told so yet.
            await _within(START_SECONDS, self._is_begun)
            if self._signal_group(signal.SIGTERM) and not self._status.done():
                await asyncio.wait({self._status}, timeout=TERM_SECONDS)
        finally:
            self._signal_group(signal.SIGKILL)
            self._may_reap.set()
            self._loop.remove_reader(self._read)
            os.close(self._read)
            self._status.cancel()

    def _signal_group(self, number: int) -> bool:
        """Send a signal to the command and what it has started; it is not reaped yet, so that the number is its own."""
        if self._process is None:
            return False
        with suppress(OSError):
            os.killpg(self._process.pid, number)
            return True
        return False

    def _receive(self) -> None:
        with suppress(BlockingIOError):
            data = os.read(self._read, 65536)
            if data:
                self.output.feed(data)
                return
            self._loop.remove_reader(self._read)
            self._at_end.set()

    def _started(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._is_begun.set()
        if self._is_over:
            self._signal_group(signal.SIGKILL)

    def _ended(self, status: int) -> None:
        if not self._status.done():
            self._status.set_result(status)

    def _failed(self, error: Exception) -> None:
        self._is_begun.set()
        if not self._status.done():
            self._status.set_exception(CantStart(_why(self._words[0], error)))

    # --------------------------------------------------------------------------------------------- the command's thread

    def _run(self, write: int) -> None:
        try:
            process = self._start(write)
        except Exception as error:
            self._tell(self._failed, error)
            return
        finally:
            os.close(write)
        self._tell(self._started, process)
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        status = 0 if ended is None else ended.si_status
        self._tell(self._ended, status if ended is None or ended.si_code == os.CLD_EXITED else -status)
        self._may_reap.wait()
        process.wait()

    def _start(self, write: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._words,
            stdin=subprocess.DEVNULL,
            stdout=write,
            stderr=subprocess.STDOUT,
            env=dict(self._environ),
            cwd=self._directory,
            start_new_session=True,
        )

    def _tell(self, method: Callable[..., None], value: object) -> None:
        # The loop has ended with the guard.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(method, value)


async def _within(seconds: float, event: asyncio.Event) -> None:
    """Wait for an event, for so many seconds at most."""
    with suppress(TimeoutError):
        await within(seconds, event.wait())


def _why(program: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"there is no program {program} on its PATH"
    if isinstance(error, PermissionError):
        return f"{program} may not be executed there"
    reason = error.strerror if isinstance(error, OSError) else None
    return f"{program} can't be started ({reason or type(error).__name__})"
