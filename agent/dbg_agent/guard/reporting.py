"""Part of a guard that dials the broker, sends the guard's findings, and answers questions for the rank."""

from __future__ import annotations

import asyncio
import math
import os
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import dbg_dial
import dbg_wire
from dbg_agent.guard.dumps import DumpRecord
from dbg_agent.guard.guard_commands import GuardCommands, ignore_but_let_pass
from dbg_agent.host.process import process_seen
from dbg_agent.host.watched import (
    CHECK_SECONDS,
    GRACE_SECONDS,
    LINGER_SECONDS,
    PIPE,
    SIGNAL,
    WatchedProcess,
    leave_parent,
)
from dbg_agent.launch.this_process import ancestors
from dbg_agent.link.dialling import dial
from dbg_agent.link.fork_safety import Lookups
from dbg_agent.link.link import BrokerFinder, find_ranks_broker
from dbg_dial.endpoint import parse_endpoint
from dbg_wire import PROTOCOL_MINOR
from dbg_wire.codec import UnknownType, decode, encode
from dbg_wire.errors import PeerError
from dbg_wire.messages import (
    GUARD_ACTIONS,
    Action,
    Answer,
    Ask,
    DetailLevel,
    Finding,
    GuardReport,
    Kind,
    Refusal,
    Register,
    Sender,
    answer_to,
)
from dbg_wire.records.evidence import MAX_WAIT_FRAMES, Activity, ActivityInfo, EvidenceRecord, ThreadWait, limit_rows
from dbg_wire.records.ranks import Place, signal_name
from dbg_wire.records.record import clamp

if TYPE_CHECKING:
    from dbg_dial.dial import BrokerWebSocket
    from dbg_dial.endpoint import Route

OWN_FOLDERS = (
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))),  # noqa: PTH100, PTH120
    os.path.dirname(os.path.abspath(dbg_dial.__file__ or "")),  # noqa: PTH100, PTH120
    os.path.dirname(os.path.abspath(dbg_wire.__file__ or "")),  # noqa: PTH100, PTH120
)
"""The directories of the agent's packages, whose frames are omitted from the program's stack."""

QUIET_SECONDS = 0.3
"""Seconds without a byte from the rank after which its stack dump is treated as complete, because a dump has no end
mark. A rank that was only suspended sends a beat within this time, so nothing is reported about it."""

ASKED_QUIET_SECONDS = 0.05
"""Seconds without a byte after which a stack dump that the guard has requested is treated as complete. They are fewer
than QUIET_SECONDS, because a user may be waiting for the dump."""

ASKED_SECONDS = 1.0
"""Timeout, in seconds, for the start of a requested stack dump. It starts within a millisecond, or never."""

RETRY_SECONDS = 5.0
"""Maximum pause before the broker is dialled again, in seconds. Pauses are random: all ranks of a job may get stuck at
once, and their guards must not all dial at the same moment."""

LAST_RETRY_SECONDS = 1.0
"""Maximum pause before the broker is dialled again after the rank has ended, in seconds. It is shorter than
RETRY_SECONDS, because the guard exits soon after its rank."""

LAST_WORDS_SECONDS = 10.0
"""Maximum time, in seconds, that a guard outlives its rank to deliver its final report. A running broker accepts the
report within one second."""


class _End:
    """The end of the rank, if it has ended: its signal or exit status, and the sender of the signal."""

    def __init__(self) -> None:
        self.is_known = False
        self.cause, self.more = "", ""
        self.signal: int | None = None
        self.exit: int | None = None
        """The exit status if the rank exited by itself and can't have reported it."""
        self.silent_from = math.inf
        """The time at which the guard exits even if no broker has accepted its final report."""

    def note(self, process: WatchedProcess, dumped: int | None, *, is_calm: bool) -> None:
        """Record that the process has ended, and by which signal.

        The signal is in the exit status. If the kernel does not report the status, the signal is ``dumped``, which is
        read from the process's stack dump. With ``is_calm`` the rank has announced its end and reports its exit status
        itself, so the status is not kept here.
        """
        self.is_known = True
        status = process.status()
        self.signal = dumped if status is None else status & SIGNAL or None
        if status is not None and self.signal is None and not is_calm:
            self.exit = status >> 8
        if self.signal is not None:
            slurm_end = os.environ.get("SLURM_JOB_END_TIME", "")
            self.cause, self.more = process.cause_of_end(self.signal, slurm_end)
        self.silent_from = time.monotonic() + LAST_WORDS_SECONDS


class GuardReporter:
    """The reporting guard of a rank.

    ``about`` is the data that the rank sent when it started its guard. ``beat_at`` is the time of the most recent beat,
    or None while no beat is expected.
    """

    def __init__(self, about: Mapping[str, Any], process: WatchedProcess, beat_at: float | None) -> None:
        self._about = about
        self._process = process
        self._record = DumpRecord(about["key"], about["main"], OWN_FOLDERS)
        self._beat_at = beat_at
        self._silent: Finding | None = None
        self._asked_after = -1
        self._frames: tuple[Place, ...] = ()
        self._let_go = False
        self._end = _End()
        self._news = asyncio.Event()
        self._beside = GuardCommands(about, process.pid, self._news.set, OWN_FOLDERS)
        self._fed = asyncio.Event()
        self._answering = asyncio.Lock()
        self._lookups = Lookups()
        self._finder = BrokerFinder(self._lookups, partial(find_ranks_broker, about["broker"], about["environ"]))
        self._main: asyncio.Task[None] | None = None

    def run(self, data: bytes, *, is_called: bool = False) -> None:
        """Report the state that the pipe's ``data`` shows, and continue until the rank has ended or released its guard.

        With ``is_called`` the rank has told its guard to connect to the broker. The line with this request may be
        missing in ``data``.
        """
        ignore_but_let_pass()
        loop = asyncio.SelectorEventLoop()
        self._main = loop.create_task(self._attend(data, is_called=is_called))
        # The task is cancelled if no broker accepts the final report in time.
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(self._main)

    async def _attend(self, data: bytes, *, is_called: bool) -> None:
        beat_at = self._beat_at
        self._receive(data)
        self._beat_at = beat_at
        if is_called:
            self._beside.stay()
        asyncio.get_running_loop().add_reader(PIPE, self._read)
        self._watch()
        self._check_beats()
        while True:
            await self._settle(0.0 if self._finding() is Finding.CALLED else QUIET_SECONDS)
            self._news.clear()
            finding = self._finding()
            if finding is not None:
                if finding is Finding.STUCK and self._asked_after != self._record.beats:
                    await self._ask_rank()
                last_report = await self._speak()
                if not last_report and time.monotonic() >= self._end.silent_from:
                    # The loop checks the time itself, because the cancellation of this task can get lost. This happens
                    # if the object that the task awaits ends at the same time.
                    return
                if not last_report:
                    pause = LAST_RETRY_SECONDS if self._end.is_known else RETRY_SECONDS
                    await asyncio.sleep(random.uniform(0, pause))  # noqa: S311
                elif self._end.is_known:
                    return
            elif self._let_go or self._end.is_known:
                return
            else:
                await self._news.wait()

    # --------------------------------------------------------------------------------------------------------- events

    def _receive(self, data: bytes) -> None:
        record = self._record
        beats, calls = record.beats, record.calls
        had_left = record.is_to_leave
        record.feed(data)
        self._let_go = self._let_go or record.is_over
        if record.is_to_leave and not had_left:
            leave_parent()
        if record.beats != beats:
            self._process.memory.note()
            self._beat_at = None if record.is_calm else time.monotonic()
            self._silent = None
        if record.calls != calls:
            self._beside.stay()
        self._fed.set()
        self._news.set()

    def _read(self) -> None:
        data = os.read(PIPE, 65536)
        if data:
            self._receive(data)
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(PIPE)
        loop.call_later(LINGER_SECONDS, self._check_end, True)

    def _check_beats(self) -> None:
        """Check whether beats have stopped, and why. Schedule the next check for the time when a beat is overdue."""
        timeout: float = self._about["stuck"] + GRACE_SECONDS
        left = timeout if self._beat_at is None else self._beat_at + timeout - time.monotonic()
        if left <= 0:
            silent = Finding.SUSPENDED if self._process.is_suspended() else Finding.STUCK
            if silent is not self._silent:
                self._silent = silent
                self._news.set()
        asyncio.get_running_loop().call_later(left if left > 0 else timeout / 2, self._check_beats)

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        if self._process.descriptor >= 0:
            loop.add_reader(self._process.descriptor, self._check_end)
        else:
            self._check_end()
            loop.call_later(CHECK_SECONDS, self._watch)

    def _check_end(self, is_released: bool = False) -> None:
        """Check whether the process has ended."""
        self._let_go = self._let_go or is_released
        self._news.set()
        if self._end.is_known or self._process.is_alive():
            return
        loop = asyncio.get_running_loop()
        if self._process.descriptor >= 0:
            loop.remove_reader(self._process.descriptor)
        self._end.note(self._process, self._record.signal, is_calm=self._record.is_calm or self._record.is_over)
        if self._main is not None:
            loop.call_later(LAST_WORDS_SECONDS, self._main.cancel)

    async def _settle(self, seconds: float) -> None:
        """Wait until no data has arrived for ``seconds``, then read the stack from the dump."""
        fed = -1
        while fed != self._record.fed:
            fed = self._record.fed
            await asyncio.sleep(seconds)
        self._frames = self._record.frames or self._frames

    def _finding(self) -> Finding | None:
        """Return the finding to report now, or None if there is none."""
        if self._end.is_known:
            return Finding.ENDED if (self._end.signal, self._end.exit) != (None, None) else None
        if self._let_go:
            return None
        if self._record.is_fatal:
            return Finding.FATAL
        return self._silent or (Finding.CALLED if self._beside.is_wanted else None)

    # ------------------------------------------------------------------------------------------------------ reporting

    async def _speak(self) -> bool:
        """Report findings to the broker until there are no more. Return False if the broker has not accepted them."""
        try:
            connection = await dial(self._reach(await self._finder.find()), "/agent", self._lookups)
        except Exception:
            # The error is dropped, because the guard can't report it to anyone. The guard dials again later.
            return False
        answering = asyncio.ensure_future(self._answer_all(connection))
        try:
            return await self._testify(connection, answering)
        except Exception:
            return False
        finally:
            async with self._answering:
                # The reporting is over, for example because the rank runs again. If the guard is just answering a
                # question, it completes that answer first.
                answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
            await self._beside.end()
            await connection.close()

    def _reach(self, reach: Route) -> Route:
        """Return the connection data; if there are several brokers, the one that the rank is connected to is first."""
        if not self._record.owner:
            return reach
        owner = parse_endpoint(self._record.owner, source="the rank's broker")
        others = (one for one in (reach.endpoint, *reach.others) if one.url != owner.url)
        return replace(reach, endpoint=owner, others=tuple(others))

    async def _testify(self, connection: BrokerWebSocket, answering: asyncio.Future[None]) -> bool:
        last_report = None
        while not answering.done():
            self._news.clear()
            finding = self._finding()
            if finding is None:
                return True
            if finding is not last_report:
                if last_report is not None:
                    await self._settle(QUIET_SECONDS)
                if last_report is Finding.CALLED and finding is Finding.STUCK:
                    async with self._answering:
                        await self._ask_rank()
                await connection.send(encode(self._guard_report(finding)))
                last_report = finding
                if finding is Finding.ENDED:
                    # The broker closes the connection after it has accepted the report.
                    await asyncio.wait({answering}, timeout=LAST_WORDS_SECONDS)
                    return True
                continue
            hearing = asyncio.ensure_future(self._news.wait())
            both: set[asyncio.Future[Any]] = {hearing, answering}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            hearing.cancel()
        return False

    def _next_message(self) -> Register | None:
        """Return the registration that the rank sent when it started its guard."""
        text = self._about.get("registration")
        message = decode(text, Sender.AGENT) if text else None
        return message if isinstance(message, Register) else None

    def _registration(self) -> Register | None:
        """Return the rank's registration with its ancestors, or None if the rank's key has changed since then."""
        message = self._next_message()
        if message is None or message.identity.key != self._record.key:
            return None
        return message.replace(ancestors=ancestors(message.process.pid))

    def _guard_report(self, finding: Finding) -> GuardReport:
        received = self._next_message()
        return clamp(
            GuardReport,
            minor=PROTOCOL_MINOR,
            key=self._record.key,
            kind=finding,
            signal=self._end.signal if finding is Finding.ENDED else self._record.signal,
            age=self._age(),
            frames=self._frames,
            registration=self._registration(),
            secret=received.secret if received is not None else "",
            cause=self._end.cause,
            note=self._end.more,
            exit=self._end.exit,
        )

    def _age(self) -> float:
        return 0.0 if self._beat_at is None else round(time.monotonic() - self._beat_at, 3)

    async def _answer_all(self, connection: BrokerWebSocket) -> None:
        """Answer the broker's questions until the connection ends."""
        async for frame in connection:
            if not isinstance(frame, str):
                raise PeerError("terminal bytes for a guard")
            try:
                message = decode(frame, Sender.BROKER)
            except UnknownType:
                # A newer broker of the same major version may send messages that this release does not know.
                continue
            if isinstance(message, Refusal):
                raise PeerError(message.text)
            if isinstance(message, Ask) and message.action in GUARD_ACTIONS:
                self._beside.receive(message, partial(_send_answer, connection))
            elif isinstance(message, Ask):
                async with self._answering:
                    await connection.send(encode(await self._answer(message)))

    async def _answer(self, ask: Ask) -> Answer:
        if ask.action is not Action.WHERE:
            return answer_to(ask.request, Kind.ERROR, f"{self._state()}, so it can't do this")
        text, found = self._state(), self._finding()
        found = Finding.SUSPENDED if self._process.is_suspended() else found if found is Finding.STUCK else None
        if found is Finding.STUCK and await self._ask_rank():
            text += "; stack just read"
        age = self._age() or None
        rows = _evidence(self._process.pid, self._frames) if ask.look is DetailLevel.EVIDENCE else ()
        return answer_to(ask.request, Kind.VALUE, text, frames=self._frames, age=age, rows=rows, found=found)

    def _state(self) -> str:
        if self._process.is_suspended():
            return f"suspended ({suspended_by(self._process.pid)}) for {self._age():.0f} s"
        if self._finding() is Finding.STUCK:
            return f"stuck in C code for {self._age():.0f} s"
        number = self._record.signal
        end = signal_name(number) if number is not None else "a signal"
        return f"ended by {end}" if self._record.is_fatal else "running"

    async def _ask_rank(self) -> bool:
        """Request the rank's stacks. Return True if the rank wrote them."""
        thread = self._record.thread
        if not self._about["signal"] or not thread or self._process.is_suspended():
            return False
        self._asked_after = self._record.beats
        self._record.expect()
        self._fed.clear()
        try:
            _signal_thread(self._process.pid, thread, self._about["signal"])
            await asyncio.wait_for(self._fed.wait(), ASKED_SECONDS)
        except OSError:
            return False
        await self._settle(ASKED_QUIET_SECONDS)
        return True


def _evidence(pid: int, frames: Sequence[Place]) -> tuple[EvidenceRecord, ...]:
    """Return the kernel's facts about a rank that can't answer; its main thread is in C code."""
    inner = tuple(frames)[-MAX_WAIT_FRAMES:]
    does = ActivityInfo(what=Activity.NATIVE)
    wait = clamp(ThreadWait, thread="MainThread", does=does, is_main=True, is_sure=True, frames=inner)
    return limit_rows([wait, process_seen(pid)])


def suspended_by(pid: int) -> str:
    """Name the cause of a process's suspension: SIGSTOP, or the tracer by name and pid."""
    tracer = process_seen(pid).tracer
    if tracer is None:
        return "SIGSTOP"
    program = tracer.command.partition(" ")[0]
    return f"{program} (pid {tracer.pid})" if program else f"process {tracer.pid}"


async def _send_answer(connection: BrokerWebSocket, answer: Answer) -> None:
    await connection.send(encode(answer))


def _signal_thread(pid: int, thread: int, number: int) -> None:
    """Send a signal to one thread of another process, and to no other thread. Raise OSError if that fails."""
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "tgkill"):
        raise OSError("the C library is older than glibc 2.30")
    if library.tgkill(pid, thread, number) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
