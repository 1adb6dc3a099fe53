"""Questions that a guard answers for the broker: it runs commands on the rank's host, and reads native stacks.

The work runs in the guard's event loop, several questions at a time, while the guard continues to watch its rank. A
question that the broker withdraws is cancelled. py-spy reads stacks with their C frames from the rank's memory.
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
from dbg_wire.records.record import clamp, within_bytes

PROGRAM = "py-spy"

MAX_OUTPUT = 16 * MIB
"""Maximum size of py-spy's output that is kept, in bytes: enough for a thousand threads with deep stacks."""

MAX_AT_ONCE = 4
"""Maximum number of questions that a guard works on at once: several people may inspect one rank, and each command may
be a profiler."""

STAY_SECONDS = 30.0
"""How long, in seconds, a guard stays connected after a question: people often ask several in a row."""

ANSWER_SECONDS = 1.0
"""Part of a question's time, in seconds, that is reserved for sending its answer."""

TERM_SECONDS = 0.3
"""Seconds between SIGTERM and SIGKILL for a command that is ended: enough for a tracer to detach from its process."""

PIPE_SECONDS = 0.3
"""How long, in seconds, output is still read after the command has ended. The pipe may stay open for longer, because
another process that the command has started holds it."""

PID, RANK = "DBG_PID", "DBG_RANK"
"""Environment variables of a command with its rank's process id and global number."""


class CantStart(Exception):
    """Raised when a command can't be started. The message is the reason, as a sentence."""


class Output:
    """The first and the last part of a command's output, and the number of bytes between them."""

    def __init__(self, first: int = MAX_FIRST, last: int = MAX_LAST) -> None:
        """Keep the first ``first`` and the last ``last`` bytes."""
        self._most = first, last
        self._first = bytearray()
        self._last = bytearray()
        self._total = 0

    def feed(self, data: bytes) -> None:
        """Add output."""
        self._total += len(data)
        room = self._most[0] - len(self._first)
        self._first += data[:room]
        self._last += data[max(0, room) :]
        del self._last[: max(0, len(self._last) - self._most[1])]

    @property
    def left_out(self) -> int:
        """The number of bytes that are not kept."""
        return self._total - len(self._first) - len(self._last)

    def text(self) -> str:
        """Return the kept output, with a line that shows how many bytes are left out."""
        first, last = (bytes(part).decode("utf-8", "replace") for part in (self._first, self._last))
        return f"{first}\n[{self.left_out:,} bytes are left out]\n{last}" if self.left_out else first + last


class Command:
    """A process in its own session, which is ended together with all processes that it has started."""

    def __init__(
        self, argv: Sequence[str], environ: Mapping[str, str], directory: str, output: Output | None = None
    ) -> None:
        self.output = output or Output()
        self._argv, self._environ, self._directory = argv, environ, directory
        self._at_end = asyncio.Event()

    async def finish(self, seconds: float) -> CommandEnd:
        """Run the command for at most ``seconds``, then end all its remaining processes.

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
                *self._argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write,
                stderr=asyncio.subprocess.STDOUT,
                env=dict(self._environ),
                cwd=self._directory,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise CantStart(f"{self._argv[0]} can't be started ({error_line(error)})") from None
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
    """End a command and the processes that it has started. The command is reaped unless the kernel blocks its end."""
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
    """Raised when no stack can be read. The message is the reason, as a sentence."""


async def stack_of(pid: int, environ: Mapping[str, str], seconds: float, own: Sequence[str]) -> tuple[Place, ...]:
    """Return the main thread's frames, including C frames, outermost first.

    Frames with files in the ``own`` directories are omitted. The process is paused while it is read, for some
    hundredths of a second. Raise NoStack if no stack can be read.
    """
    program = find_program(environ)
    argv = [program, "dump", "--native", "--json", "--full-filenames", "--pid", str(pid)]
    command = Command(argv, environ, "/", Output(MAX_OUTPUT, 0))
    end = await command.finish(seconds)
    output = command.output.text()
    if end.ended:
        raise NoStack(f"{PROGRAM} did not finish within {seconds:.3g} s and was terminated")
    if end.status != 0:
        raise NoStack(_why_no_stack(output, read_proc(YAMA_SCOPE).strip()))
    return frames_of(output, pid, own, files_at(read_proc(f"/proc/{pid}/maps", MIB)))


def find_program(environ: Mapping[str, str]) -> str:
    """Return the path of py-spy, on the rank's PATH or next to its Python. Raise NoStack if it is missing."""
    beside = os.path.join(os.path.dirname(sys.executable), PROGRAM)  # noqa: PTH118, PTH120
    found = shutil.which(PROGRAM, path=environ.get("PATH")) or shutil.which(beside)
    if found is None:
        raise NoStack(f"{PROGRAM} is not installed there; run `pip install {PROGRAM}` in the job's environment")
    return found


def files_at(maps: str) -> dict[str, int]:
    """Return the start address of each mapped file in a process's memory. The addresses differ between processes."""
    begins: dict[str, int] = {}
    for fields in (line.split(maxsplit=5) for line in maps.splitlines()):
        if len(fields) == 6:
            begins.setdefault(fields[5], int(fields[0].partition("-")[0], 16))
    return begins


def frames_of(text: str, pid: int, own: Sequence[str], begins: Mapping[str, int]) -> tuple[Place, ...]:
    """Return the main thread's frames from py-spy's JSON.

    A function whose name is unknown is shown by its address in its file. Raise NoStack if the text is not py-spy's
    JSON.
    """
    try:
        threads: list[dict[str, Any]] = json.loads(text)
        # The main thread's number is the process id, in this namespace of process ids or in the process's own.
        main = [thread for thread in threads if thread["os_thread_id"] in (pid, thread["pid"])] or threads[-1:]
        frames = [_place(frame, begins) for frame in main[0]["frames"]]
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError):
        raise NoStack(f"{PROGRAM} printed {printable(text.strip(), 100)!r}, which is not a stack") from None
    folders = tuple(folder.rstrip("/") + "/" for folder in own)
    innermost = [place for place in frames if not place.file.startswith(folders)]
    kept, _ = within_bytes(innermost[: MAX_STACK_FRAMES - 1], MAX_STACK_BYTES)
    if len(kept) < len(innermost):
        left_out = f"[{len(innermost) - len(kept)} frames left out]"
        kept.append(clamp(Place, file="", line=0, function=left_out))
    return tuple(reversed(kept))


def _place(frame: dict[str, Any], begins: Mapping[str, int]) -> Place:
    file, name = str(frame["module"] or frame["filename"]), str(frame["name"])
    if name.startswith("0x") and file in begins:
        name = f"{int(name, 16) - begins[file]:#x}"
    return clamp(Place, file=file, line=max(0, int(frame["line"] or 0)), function=name)


def _why_no_stack(output: str, scope: str) -> str:
    if "ermission" not in output and "not permitted" not in output:
        return f"{PROGRAM} failed: {printable(output.strip().partition(chr(10))[0])}"
    return (
        f"reading its memory is not permitted: kernel.yama.ptrace_scope is {scope or 'not set'} (0 permits it),"
        " and a container needs the capability SYS_PTRACE"
    )


Say = Callable[[Answer], Awaitable[None]]


class GuardCommands:
    """The open questions of a guard, and their work."""

    def __init__(self, about: Mapping[str, Any], pid: int, has_changed: Callable[[], None], own: Sequence[str]) -> None:
        """Start without questions; ``has_changed`` is called when :attr:`is_wanted` may have changed.

        ``own`` are the directories of the agent's packages, whose frames are omitted from stacks.
        """
        self._own = own
        self._about = about
        self._pid = pid
        self._has_changed = has_changed
        self._working: dict[int, asyncio.Task[None]] = {}
        self._stays_until = 0.0

    @property
    def is_wanted(self) -> bool:
        """Whether a question is open, or the next one may arrive soon."""
        return bool(self._working) or time.monotonic() < self._stays_until

    def stay(self) -> None:
        """Expect a question within :data:`STAY_SECONDS`."""
        self._stays_until = time.monotonic() + STAY_SECONDS
        asyncio.get_running_loop().call_later(STAY_SECONDS + 0.1, self._has_changed)

    def receive(self, ask: Ask, answer_with: Say) -> None:
        """Start work on a question, or cancel it if the question is withdrawn; ``answer_with`` sends the answer."""
        if ask.withdrawn:
            task = self._working.get(ask.request)
            if task is not None:
                task.cancel()
        elif ask.request not in self._working:
            task = asyncio.ensure_future(self._work(ask, answer_with))
            self._working[ask.request] = task
            task.add_done_callback(partial(self._done, ask.request))

    async def end(self) -> None:
        """Cancel all work and wait until it has ended."""
        tasks = list(self._working.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ---------------------------------------------------------------------------------------------------------- inner

    def _done(self, request: int, task: asyncio.Task[None]) -> None:
        del self._working[request]
        if not task.cancelled():
            # The task has failed only if the answer could not be sent. Then the connection has ended, and other code
            # handles this. Reading the exception keeps asyncio from logging it.
            task.exception()
        self.stay()
        self._has_changed()

    async def _work(self, ask: Ask, answer_with: Say) -> None:
        seconds = max(ask.seconds - ANSWER_SECONDS, ask.seconds / 2)
        try:
            answer = await self._answer(ask, seconds)
        except (CantStart, NoStack, PeerError) as error:
            answer = _error(ask, str(error))
        except Exception as error:
            answer = _error(ask, f"its guard failed ({type(error).__name__}: {printable(str(error))})")
        await answer_with(answer)

    async def _answer(self, ask: Ask, seconds: float) -> Answer:
        if len(self._working) > MAX_AT_ONCE:
            return _error(ask, f"{MAX_AT_ONCE} commands are already running for this rank")
        if not self._about["exec"]:
            return _error(ask, FORBIDDEN)
        if ask.action is Action.NATIVE:
            frames = await stack_of(self._pid, self.environ(), seconds, self._own)
            return answer_to(ask.request, Kind.VALUE, "read by py-spy", frames=frames)
        return await self._exec(ask, seconds)

    async def _exec(self, ask: Ask, seconds: float) -> Answer:
        if not isinstance(ask.inquiry, CommandLine):
            return _error(ask, "an `exec` without a command")
        command = Command(ask.inquiry.argv, self.environ(), f"/proc/{self._pid}/cwd")
        end = await command.finish(seconds)
        end = clamp(CommandEnd, status=end.status, ended=end.ended, left_out=command.output.left_out)
        kind = Kind.VALUE if end.status == 0 else Kind.ERROR
        rows = output_rows(end, command.output.text())
        return answer_to(ask.request, kind, _sentence(end), rows=rows)

    def environ(self) -> dict[str, str]:
        """Return the environment of a command: the rank's environment at the start of its guard, with PID and RANK."""
        # With the variable AUTOSTART, a command that is a Python program would become a rank.
        environ = {name: value for name, value in os.environ.items() if name != AUTOSTART}
        return environ | {PID: str(self._pid), RANK: str(self._about["rank"])}


def ignore_but_let_pass() -> None:
    """Make the guard ignore signals that are meant to end the job. Commands that it starts don't ignore them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A handler that does nothing is used, because commands would inherit SIG_IGN, but they inherit no handler.
        signal.signal(number, _ignore)


def _ignore(*_: object) -> None:
    """Do nothing."""


def _sentence(end: CommandEnd) -> str:
    if end.ended:
        return f"ended {end.ended}"
    return f"exit status {end.status}" if (end.status or 0) >= 0 else f"killed by signal {-(end.status or 0)}"


def _error(ask: Ask, text: str) -> Answer:
    return answer_to(ask.request, Kind.ERROR, text)
