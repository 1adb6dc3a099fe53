"""The one current stop of a rank: its thread, its phase, and the facts reported about it.

Threads that reach a breakpoint while another thread is stopped queue here. Methods may be called from any thread. They
do not wait unless their docstring mentions a wait.
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import FrameType

from dbg_agent.frames.stacks import is_own, place_of
from dbg_agent.process.log import Logger
from dbg_agent.process.threads import wait_for
from dbg_agent.stop.inbox import ProgramRaised
from dbg_wire.errors import InvalidTransition
from dbg_wire.messages import RankReport, SessionInfo, StopInfo
from dbg_wire.records.ranks import Limit, Place, RankState
from dbg_wire.records.record import clamp


class StopPhase(str, enum.Enum):
    """The phase of a rank's current stop, as the rank sees it."""

    NONE = "none"
    WAITING = "waiting"
    """The thread is halted and no debugger is open yet."""
    OPEN = "open"
    """The thread is halted inside a debugger."""
    STEPPING = "stepping"
    """The thread runs because of a step command. The same stop continues when the step ends."""


class StopEvent(str, enum.Enum):
    """An event that changes the phase of a stop."""

    ARRIVES = "arrives"
    OPENS = "opens"
    STEPS = "steps"
    HALTS = "halts"
    ENDS = "ends"


_P, _S = StopPhase, StopEvent

STOP_MOVES: Mapping[StopPhase, Mapping[StopEvent, StopPhase]] = {
    _P.NONE: {_S.ARRIVES: _P.WAITING},
    _P.WAITING: {_S.OPENS: _P.OPEN, _S.ENDS: _P.NONE},
    # A switch to another debugger on the same stop closes the open one first, so the stop waits again.
    _P.OPEN: {_S.STEPS: _P.STEPPING, _S.HALTS: _P.WAITING, _S.ENDS: _P.NONE},
    # A thread that reaches the end of the step halts in the open debugger. A thread that exits before that ends the
    # stop.
    _P.STEPPING: {_S.OPENS: _P.OPEN, _S.ENDS: _P.NONE},
}


def move_stop(phase: StopPhase, event: StopEvent) -> StopPhase:
    """Return the phase after an event; raise InvalidTransition if the event is not allowed in this phase."""
    try:
        return STOP_MOVES[phase][event]
    except KeyError:
        raise InvalidTransition("a stop", phase.value, event.value) from None


logger = Logger("dbg_agent.stop")

CRASHED_CANT_MOVE = "the rank is kept after a crash and can't move; `c` lets it end"

HELD = "hold"
"""Reason of the stop of a rank that was not chosen to stop: it waits until the chosen ranks have been resumed."""

SLOW_STEP_SECONDS = 0.3
"""Time in seconds after which a step is reported as running. A report for each quick step would make the list
flicker."""


@dataclass(frozen=True, slots=True, eq=False)
class Crash:
    """The exception of a crash, and its text in one line.

    ``ends`` names what the exception ends once the rank is resumed; it is empty if the exception ends nothing.
    """

    error: BaseException
    text: str
    ends: str = ""

    @property
    def continue_effect(self) -> str:
        """Effect of leaving this stop, as a clause without a subject."""
        return f"let {self.ends} end by its exception" if self.ends else "let the program continue after post_mortem()"


NOWHERE = Place(file="", line=0, function="")


@dataclass(slots=True)
class _Reported:
    """The reported facts about the current stop or, if there is none, about the most recent one."""

    reason: str = ""
    error: str = ""
    frame: FrameType | None = None
    """The frame where the stop began."""
    place: Place = NOWHERE
    since: float = 0.0
    halted_since: float = 0.0
    thread: str = ""
    limit: Limit | None = None
    lease: tuple[float, float] | None = None


class Stops:
    """The current stop, owned by one thread at a time, and the queue of threads waiting for it.

    ``changed`` is called, without locks held, after every change that must be reported. ``on_thread_exit`` ends a stop
    whose thread exits during a step.
    """

    def __init__(self, changed: Callable[[], None], on_thread_exit: Callable[[], None] | None = None) -> None:
        self._changed = changed
        self._on_thread_exit = on_thread_exit or self.end
        self._turn = threading.Condition()
        self._phase = StopPhase.NONE
        self._owner: int | None = None
        self._number = 0
        self._reported = _Reported()
        self._sessions = 0
        self._session: SessionInfo | None = None
        self.session_before: SessionInfo | None = None
        """The most recent session of an earlier stop."""
        self._is_unreported = False
        self._queued = 0
        self._is_slow = False
        self._steps = 0
        self._ends = threading.local()

    # ------------------------------------------------------------------------------------------------- current state

    @property
    def phase(self) -> StopPhase:
        """Phase of the current stop."""
        return self._phase

    @property
    def arrived_at(self) -> FrameType | None:
        """The frame where the current stop began; it is known as soon as the stop is reported."""
        return self._reported.frame

    @property
    def halted_since(self) -> float:
        """Time at which the stopped thread most recently halted, on the monotonic clock."""
        return self._reported.halted_since

    @property
    def number(self) -> int:
        """Number of the current stop or, if there is none, of the most recent one."""
        return self._number

    @property
    def current(self) -> tuple[int | None, int | None]:
        """Numbers of the current stop and its session, for tagging input; None for a missing one."""
        with self._turn:
            if self._phase is StopPhase.NONE or self._is_unreported:
                return None, None
            return self._number, self._session.number if self._session else None

    @property
    def owner(self) -> int | None:
        """Identifier of the stopped thread."""
        return self._owner

    @property
    def queued(self) -> int:
        """Number of threads waiting for their turn."""
        return self._queued

    @property
    def engine(self) -> str | None:
        """Name of the debugger that is open on the stop."""
        session = self._session
        return session.engine if session is not None else None

    @property
    def is_halted(self) -> bool:
        """Whether the stopped thread is halted."""
        return self._phase in (StopPhase.WAITING, StopPhase.OPEN)

    @property
    def is_busy(self) -> bool:
        """Whether the open debugger's work has taken long, so that the stopped thread accepts no other work."""
        return self._phase is StopPhase.OPEN and self._is_slow

    @property
    def is_in_short_step(self) -> bool:
        """Whether the thread runs in a step that has just begun, so that the rank is still reported as stopped."""
        return self._phase is StopPhase.STEPPING and not self._is_slow

    @property
    def is_unreported(self) -> bool:
        """Whether the stop is not reported, because a breakpoint's commands run and then resume the thread."""
        return self._is_unreported

    @property
    def is_hold(self) -> bool:
        """Whether the current stop is a wait for other ranks."""
        return self._phase is not StopPhase.NONE and self._reported.reason == HELD

    @property
    def state_word(self) -> str:
        """``held`` or ``stopped``, for messages to users."""
        return "held" if self.is_hold else "stopped"

    def is_mine(self) -> bool:
        """Return True if the calling thread owns the stop."""
        return self._owner == threading.get_ident()

    def report(self, *, breakpoints: int, generation: int, applied: int) -> RankReport:
        """Return the report of this rank; other objects add the fields that are not known here."""
        with self._turn:
            is_over = self._phase is StopPhase.NONE or self._is_unreported
            running = is_over or self._is_slow
            stop = None
            if not is_over:
                now, reported = time.monotonic(), self._reported
                stop = clamp(
                    StopInfo,
                    number=self._number,
                    reason=reported.reason,
                    where=reported.place,
                    age=now - reported.since,
                    thread=reported.thread,
                    error=reported.error,
                    limit=reported.limit,
                    lease=reported.lease[0] if reported.lease is not None else None,
                    lease_seconds=reported.lease[1] - now if reported.lease is not None else None,
                )
            is_held = self._reported.reason == HELD
            return clamp(
                RankReport,
                state=RankState.RUNNING if running else RankState.HELD if is_held else RankState.STOPPED,
                stop=stop,
                session=None if is_over else self._session,
                stepping=self._is_slow,
                breakpoints=breakpoints,
                queued=self._queued,
                generation=generation,
                applied=applied,
            )

    # --------------------------------------------------------------------------------------- in the stopping thread

    def arrive(self, frame: FrameType, reason: str, error: str = "", *, is_unreported: bool = False) -> None:
        """Wait until it is the calling thread's turn, then make this place the current stop.

        With ``is_unreported`` the stop reuses the previous session and nothing is reported. Raise ProgramRaised with
        any exception that a signal handler of the program raises.
        """
        with self._turn:
            self._queued += 1
        if not is_unreported:
            self._changed()
        try:
            self._take_turn(frame, reason, error, is_unreported=is_unreported)
            self._watch_thread_end()
            if not is_unreported:
                self._changed()
                place = self._reported.place
                logger.info("stop %d, %s, begins at %s:%d", self._number, reason, place.file, place.line)
        except BaseException:
            if self.is_mine():
                self.end()
            raise

    def start_reporting(self) -> None:
        """Report the stop that began unreported, and treat it as an ordinary one from now on."""
        with self._turn:
            self._is_unreported = False
            self._reported.since = time.monotonic()
        self._changed()

    def _take_turn(self, frame: FrameType, reason: str, error: str, *, is_unreported: bool) -> None:
        try:
            with self._turn:
                try:
                    wait_for(self._turn, lambda: self._phase is StopPhase.NONE)
                except BaseException as raised:
                    raise ProgramRaised(raised) from None
                # The owner is set first: a signal handler that stops from here on is within this stop and doesn't wait.
                self._owner = threading.get_ident()
                now = time.monotonic()
                self._reported = _Reported(
                    reason,
                    error,
                    frame,
                    # A rank that holds its exit waits in the agent's code, which is not a place in the program.
                    place_of(frame) if not is_own(frame) else NOWHERE,
                    since=now,
                    halted_since=now,
                    thread=threading.current_thread().name,
                )
                self._phase = move_stop(self._phase, StopEvent.ARRIVES)
                self._number += 1
                if is_unreported:
                    self._is_unreported = True
                    self._phase = move_stop(self._phase, StopEvent.OPENS)
                    self._session = self.session_before
        finally:
            with self._turn:
                self._queued -= 1

    def open_session(self, engine: str, rows: int, columns: int) -> SessionInfo:
        """Record that a debugger opens on the stop; return its session."""
        with self._turn:
            self._phase = move_stop(self._phase, StopEvent.OPENS)
            if self._reported.reason == HELD:
                # A user inspects the held rank, so this becomes an ordinary stop, which lasts until the user ends it.
                self._reported.reason = "breakpoint"
            if self._session is None:
                self._sessions += 1
                self._session = clamp(SessionInfo, number=self._sessions, engine=engine, rows=rows, columns=columns)
            session = self._session
        self._changed()
        logger.info("%s opens on stop %d", engine, self._number)
        return session

    def resize_session(self, rows: int, columns: int) -> None:
        """Record the new size of the open debugger's screen."""
        with self._turn:
            if self._session is None:
                return
            number, engine = self._session.number, self._session.engine
            self._session = clamp(SessionInfo, number=number, engine=engine, rows=rows, columns=columns)
        self._changed()

    def step(self) -> int:
        """Record that the thread runs in a step; return the step's number."""
        with self._turn:
            self._phase = move_stop(self._phase, StopEvent.STEPS)
            self._is_slow = False
            self._steps += 1
            step = self._steps
        logger.debug("stop %d steps", self._number)
        return step

    def step_is_slow(self, step: int) -> None:
        """Report the rank as running if the step of that number has not ended yet."""
        with self._turn:
            if self._phase is not StopPhase.STEPPING or self._steps != step:
                return
            self._is_slow = True
            self._reported.since = time.monotonic()
        self._changed()

    def work_is_slow(self) -> None:
        """Report the rank as running because the open debugger's work takes long."""
        with self._turn:
            if self._phase is not StopPhase.OPEN:
                return
            self._is_slow = True
            self._reported.since = time.monotonic()
        self._changed()

    def work_is_over(self) -> None:
        """Report the rank as stopped again if it was reported as running during the open debugger's work."""
        with self._turn:
            if not self.is_busy:
                return
            self._is_slow = False
            self._reported.since = time.monotonic()
        self._changed()

    def halt(self, frame: FrameType) -> None:
        """Record that the step has ended here, in the same stop and session."""
        with self._turn:
            self._phase = move_stop(self._phase, StopEvent.OPENS)
            reported = self._reported
            reported.halted_since = time.monotonic()
            if self._is_slow:
                reported.since = reported.halted_since
            self._is_slow = False
            reported.place = place_of(frame)
        self._changed()

    def close_session(self) -> None:
        """Record that the debugger could not be opened or was left; the stop continues."""
        with self._turn:
            self._phase = move_stop(self._phase, StopEvent.HALTS)
            self._is_slow = False
            self._session = None
        self._changed()
        logger.info("no debugger is open on stop %d", self._number)

    def end(self) -> None:
        """End the current stop if it is not over, and give the next thread its turn."""
        with self._turn:
            if self._phase is not StopPhase.NONE:
                self._phase = move_stop(self._phase, StopEvent.ENDS)
            elif not self.is_mine():  # a signal handler may have raised at the start of this thread's turn
                return
            self._owner = self._reported.frame = None
            if self._session is not None:
                self.session_before = self._session
            self._session = None
            self._is_slow = False
            was_unreported, self._is_unreported = self._is_unreported, False
            number = self._number
            self._turn.notify()
        if not was_unreported:
            self._changed()
        logger.info("stop %d ends", number)

    def set_limit(self, limit: Limit | None) -> None:
        """Report the time limit of the current stop that expires first; ``limit`` is None if the stop has no limit."""
        if self._reported.limit != limit:
            self._reported.limit = limit
            self._changed()

    def note_lease(self, lease: tuple[float, float] | None) -> None:
        """Record the lease that ends the stop first, as its length in seconds and its end on the monotonic clock.

        None means that the stop has no lease. The next report contains the lease.
        """
        self._reported.lease = lease

    # --------------------------------------------------------------------------------------------------------------

    def _watch_thread_end(self) -> None:
        """Make the stop end if its thread exits in the middle of a step; other threads would otherwise wait forever."""
        self._ends.watch = _ThreadEnd(self._thread_ended, self._number)

    def _thread_ended(self, number: int) -> None:
        if self._phase is StopPhase.STEPPING and self._number == number:
            self._on_thread_exit()


class _ThreadEnd:
    """An object in a thread's `threading.local`; calls ``ended`` when Python drops it, because the thread exits."""

    __slots__ = ("_ended", "_number")

    def __init__(self, ended: Callable[[int], None], number: int) -> None:
        self._ended = ended
        self._number = number

    def __del__(self) -> None:
        self._ended(self._number)


class Halt:
    """The frame of the stopped thread and its data, from one halt to the next."""

    def __init__(self) -> None:
        self.frame: FrameType | None = None
        """The halted frame of the stopped thread; None while the thread runs."""
        self.opening: FrameType | None = None
        """The frame that a debugger shows first; None if that is the frame of the stop."""
        self.crash: Crash | None = None
        """The crash that this rank is kept for at the current stop, or None."""
        self.is_interrupted = False
        """Whether Ctrl-C was pressed during an unreported stop; the program's next line is interrupted then."""
        self.awaits_in: int | None = None
        """Id of the stopped thread if its code awaits what the user types as ``await …``; otherwise None."""
        self.awaitable: Awaitable[object] | None = None
        """The awaitable that the user typed most recently."""
        self._stepped_to: tuple[int, int] | None = None
        """Frame id and line of the most recent halt by tracing; a breakpoint on that line must not halt the thread
        there a second time."""

    def take_awaitable(self) -> Awaitable[object] | None:
        """Return the awaitable that the user has typed as ``await …``, and forget it."""
        typed, self.awaitable = self.awaitable, None
        return typed

    def uncaught(self) -> BaseException | None:
        """Return the exception of the crash that the rank is kept for; None for any other stop."""
        return self.crash.error if self.crash is not None else None

    def note(self, frame: FrameType) -> None:
        """Record that a step or a breakpoint has halted this frame at its present line."""
        self._stepped_to = (id(frame), frame.f_lineno)

    @property
    def was_stepped(self) -> bool:
        """Whether the most recent halt by a step or a breakpoint was not yet reported by :meth:`has_just_halted`."""
        return self._stepped_to is not None

    def has_just_halted(self, frame: FrameType) -> bool:
        """Return True, only once for each halt, if a step or a breakpoint has just halted this frame at its line."""
        if self._stepped_to != (id(frame), frame.f_lineno):
            return False
        self._stepped_to = None
        return True
