"""What the broker asks of a guard beside its rank: commands and native stacks; each ends with its asker.

All of it runs in the guard's event loop, several at a time, while the guard goes on watching its rank. A stack with its
frames of C code is read by py-spy from the rank's memory.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from dbg_agent.host.proc import YAMA_SCOPE, read_proc
from dbg_agent.settings import FORBIDDEN
from dbg_dial.home import AUTOSTART
from dbg_dial.tcp import within
from dbg_wire.errors import PeerError, error_line, printable
from dbg_wire.limits import MAX_STACK_BYTES, MAX_STACK_FRAMES, MIB
from dbg_wire.messages import Action, Answer, Ask, Kind, answer_to
from dbg_wire.records.inspection import MAX_FIRST, MAX_LAST, CommandEnd, CommandLine, output_rows
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import fitted, within_bytes

PROGRAM = "py-spy"

MAX_OUTPUT = 16 * MIB
"""Bytes of py-spy's output that are read: a thousand deep threads."""

MAX_AT_ONCE = 4
"""Questions that a guard works on at once: several people look at one rank, and each command may be a profiler."""

STAY_SECONDS = 30.0
"""Seconds for which a guard stays at the broker for the next question: people ask several in a row."""

ANSWER_SECONDS = 1.0
"""Seconds of a question's time that are kept for the way of its answer."""

TERM_SECONDS = 0.3
"""Seconds between SIGTERM and SIGKILL for a command that is ended: a tracer lets go of its process within them."""

PIPE_SECONDS = 0.3
"""Seconds that output is read for after the command has ended, if something that it has started holds its pipe."""

PID, RANK = "DBG_PID", "DBG_RANK"
"""Variables by which a command knows its rank: the process id and the global number."""


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
    """A process in a session of its own, which ends with all that it has started."""

    def __init__(
        self, words: Sequence[str], environ: Mapping[str, str], directory: str, output: Output | None = None
    ) -> None:
        self.output = output or Output()
        self._words, self._environ, self._directory = words, environ, directory
        self._at_end = asyncio.Event()

    async def finish(self, seconds: float) -> CommandEnd:
        """Run it until it has ended, for so many seconds at most, and end all that is left of it.

        Raise CantStart if it can't be started.
        """
        read, write = os.pipe()
        loop = asyncio.get_running_loop()
        os.set_blocking(read, False)
        loop.add_reader(read, self._receive, read)
        process = None
        try:
            process = await self._start(write)
            ended = asyncio.ensure_future(process.wait())
            await asyncio.wait({ended}, timeout=seconds)
            if not ended.done():
                return CommandEnd(ended=f"after {seconds:.3g} s")
            with suppress(TimeoutError):
                await within(PIPE_SECONDS, self._at_end.wait())
            return CommandEnd(status=ended.result())
        finally:
            if process is not None:
                await _end(process)
            loop.remove_reader(read)
            os.close(read)

    async def _start(self, write: int) -> Process:
        try:
            return await asyncio.create_subprocess_exec(
                *self._words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write,
                stderr=asyncio.subprocess.STDOUT,
                env=dict(self._environ),
                cwd=self._directory,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise CantStart(f"{self._words[0]} can't be started ({error_line(error)})") from None
        finally:
            os.close(write)

    def _receive(self, read: int) -> None:
        with suppress(BlockingIOError):
            data = os.read(read, 65536)
            if data:
                self.output.feed(data)
                return
            asyncio.get_running_loop().remove_reader(read)
            self._at_end.set()


async def _end(process: Process) -> None:
    """End a command and what it has started; it is reaped unless the kernel holds it."""
    try:
        await _signal_and_wait(process, signal.SIGTERM)
    finally:
        await _signal_and_wait(process, signal.SIGKILL)


async def _signal_and_wait(process: Process, number: int) -> None:
    _signal_group(process, number)
    if process.returncode is None:
        await asyncio.wait({asyncio.ensure_future(process.wait())}, timeout=TERM_SECONDS)


def _signal_group(process: Process, number: int) -> None:
    with suppress(OSError):
        os.killpg(process.pid, number)


class NoStack(Exception):
    """No stack can be read, with the reason as a sentence."""


async def stack_of(pid: int, environ: Mapping[str, str], seconds: float, own: Sequence[str]) -> tuple[Place, ...]:
    """Return the main thread's frames, those of C code among them, outermost first, but those in our ``own`` folders.

    The process stands still meanwhile, some hundredths of a second. Raise NoStack if that can't be done.
    """
    program = find_program(environ)
    words = [program, "dump", "--native", "--json", "--full-filenames", "--pid", str(pid)]
    command = Command(words, environ, "/", Output(MAX_OUTPUT, 0))
    end = await command.finish(seconds)
    said = command.output.text()
    if end.ended:
        raise NoStack(f"{PROGRAM} was not done within {seconds:.3g} s, and was ended")
    if end.status != 0:
        raise NoStack(_why_no_stack(said, read_proc(YAMA_SCOPE).strip()))
    return frames_of(said, pid, own, files_at(read_proc(f"/proc/{pid}/maps", MIB)))


def find_program(environ: Mapping[str, str]) -> str:
    """Return the path of py-spy, on the rank's PATH or beside its Python. Raise NoStack if there is none."""
    beside = os.path.join(os.path.dirname(sys.executable), PROGRAM)  # noqa: PTH118, PTH120
    found = shutil.which(PROGRAM, path=environ.get("PATH")) or shutil.which(beside)
    if found is None:
        raise NoStack(f"{PROGRAM} is not installed there: `pip install {PROGRAM}` into the job's environment")
    return found


def files_at(maps: str) -> dict[str, int]:
    """Return the address at which each file begins in a process's memory, which differs from process to process."""
    begins: dict[str, int] = {}
    for words in (line.split(maxsplit=5) for line in maps.splitlines()):
        if len(words) == 6:
            begins.setdefault(words[5], int(words[0].partition("-")[0], 16))
    return begins


def frames_of(text: str, pid: int, own: Sequence[str], begins: Mapping[str, int]) -> tuple[Place, ...]:
    """Return the main thread's frames of py-spy's JSON; a function without a name has its address within its file.

    Raise NoStack for another text.
    """
    try:
        threads: list[dict[str, Any]] = json.loads(text)
        # Within the process's own numbers the main thread has that of the process.
        main = [thread for thread in threads if thread["os_thread_id"] in (pid, thread["pid"])] or threads[-1:]
        frames = [_place(frame, begins) for frame in main[0]["frames"]]
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError):
        raise NoStack(f"{PROGRAM} says {printable(text.strip(), 100)!r}, which is no stack") from None
    folders = tuple(folder.rstrip("/") + "/" for folder in own)
    innermost = [place for place in frames if not place.file.startswith(folders)]
    kept, _ = within_bytes(innermost[: MAX_STACK_FRAMES - 1], MAX_STACK_BYTES)
    if len(kept) < len(innermost):
        left_out = f"[{len(innermost) - len(kept)} frames left out]"
        kept.append(fitted(Place, file="", line=0, function=left_out))
    return tuple(reversed(kept))


def _place(frame: dict[str, Any], begins: Mapping[str, int]) -> Place:
    file, name = str(frame["module"] or frame["filename"]), str(frame["name"])
    if name.startswith("0x") and file in begins:
        name = f"{int(name, 16) - begins[file]:#x}"
    return fitted(Place, file=file, line=max(0, int(frame["line"] or 0)), function=name)


def _why_no_stack(said: str, scope: str) -> str:
    if "ermission" not in said and "not permitted" not in said:
        return f"{PROGRAM} failed: {printable(said.strip().partition(chr(10))[0])}"
    return (
        f"it may not be traced there: kernel.yama.ptrace_scope is {scope or 'not set'}, where 0 lets it be read,"
        " and a container needs the capability SYS_PTRACE"
    )


Say = Callable[[Answer], Awaitable[None]]


class Beside:
    """The questions that a guard works on."""

    def __init__(self, about: Mapping[str, Any], pid: int, has_changed: Callable[[], None], own: Sequence[str]) -> None:
        """Begin without any; ``has_changed`` is called when :attr:`is_wanted` may have changed.

        ``own`` are the folders of our packages, whose frames are left out of stacks.
        """
        self._own = own
        self._about = about
        self._pid = pid
        self._has_changed = has_changed
        self._working: dict[int, asyncio.Task[None]] = {}
        self._stays_until = 0.0

    @property
    def is_wanted(self) -> bool:
        """Tell whether a question is open, or the next one may come soon."""
        return bool(self._working) or time.monotonic() < self._stays_until

    def stay(self) -> None:
        """Expect a question within :data:`STAY_SECONDS`."""
        self._stays_until = time.monotonic() + STAY_SECONDS
        asyncio.get_running_loop().call_later(STAY_SECONDS + 0.1, self._has_changed)

    def receive(self, ask: Ask, say: Say) -> None:
        """Begin to work on a question, or end that if it is withdrawn; ``say`` sends the answer."""
        if ask.withdrawn:
            task = self._working.get(ask.request)
            if task is not None:
                task.cancel()
        elif ask.request not in self._working:
            task = asyncio.ensure_future(self._work(ask, say))
            self._working[ask.request] = task
            task.add_done_callback(partial(self._done, ask.request))

    async def end(self) -> None:
        """End all work, and wait until nothing is left of it."""
        tasks = list(self._working.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ---------------------------------------------------------------------------------------------------------- inner

    def _done(self, request: int, task: asyncio.Task[None]) -> None:
        del self._working[request]
        if not task.cancelled():
            # An answer that could not be sent: the connection has ended, which others notice.
            task.exception()
        self.stay()
        self._has_changed()

    async def _work(self, ask: Ask, say: Say) -> None:
        seconds = max(ask.seconds - ANSWER_SECONDS, ask.seconds / 2)
        try:
            answer = await self._answer(ask, seconds)
        except (CantStart, NoStack, PeerError) as error:
            answer = _error(ask, str(error))
        except Exception as error:
            answer = _error(ask, f"its guard failed ({type(error).__name__}: {printable(str(error))})")
        await say(answer)

    async def _answer(self, ask: Ask, seconds: float) -> Answer:
        if len(self._working) > MAX_AT_ONCE:
            return _error(ask, f"{MAX_AT_ONCE} commands run beside it already")
        if not self._about["exec"]:
            return _error(ask, FORBIDDEN)
        if ask.action is Action.NATIVE:
            frames = await stack_of(self._pid, self.environ(), seconds, self._own)
            return answer_to(ask.request, Kind.VALUE, "read by py-spy", frames=frames)
        return await self._exec(ask, seconds)

    async def _exec(self, ask: Ask, seconds: float) -> Answer:
        if not isinstance(ask.inquiry, CommandLine):
            return _error(ask, "an `exec` without a command")
        command = Command(ask.inquiry.words, self.environ(), f"/proc/{self._pid}/cwd")
        end = await command.finish(seconds)
        end = fitted(CommandEnd, status=end.status, ended=end.ended, left_out=command.output.left_out)
        kind = Kind.VALUE if end.status == 0 else Kind.ERROR
        rows = output_rows(end, command.output.text())
        return answer_to(ask.request, kind, _sentence(end), rows=rows)

    def environ(self) -> dict[str, str]:
        """Return the environment of a command: the rank's when its guard began, and who the rank is."""
        # The variable would make a rank of the command if that is Python.
        environ = {name: value for name, value in os.environ.items() if name != AUTOSTART}
        return environ | {PID: str(self._pid), RANK: str(self._about["rank"])}


def ignore_but_let_pass() -> None:
    """Go on ignoring the signals that are meant for the job, but let the commands that are started have them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # An ignored signal would be ignored by each command, too; one with a handler is not.
        signal.signal(number, _ignore)


def _ignore(*_: object) -> None:
    """Do nothing."""


def _sentence(end: CommandEnd) -> str:
    if end.ended:
        return f"ended {end.ended}"
    return f"exit status {end.status}" if (end.status or 0) >= 0 else f"killed by signal {-(end.status or 0)}"


def _error(ask: Ask, text: str) -> Answer:
    return answer_to(ask.request, Kind.ERROR, text)
