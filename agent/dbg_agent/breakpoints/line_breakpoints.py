"""Breakpoints of a rank that IDEs and agents set. bdb's lists contain them, like breakpoints of the debuggers.

Requests are carried out in the stopped thread, or in a background thread while the program runs. Nothing is imported
while the lock is held, because the program may reach a breakpoint in the middle of an import.
"""

from __future__ import annotations

import bdb
import json
import os
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from types import FrameType
from typing import NamedTuple, Protocol

from dbg_agent.breakpoints.conditional_stop import (
    ConditionalStop,
    LogText,
    NoHits,
    NoLogText,
    check_stop,
    condition_code,
    evaluate_at,
    hits_of,
    holds,
    mechanism,
    raised_text,
)
from dbg_agent.breakpoints.placing import is_ours, loaded_path, place_in
from dbg_agent.breakpoints.startup_stops import stops_at
from dbg_agent.frames.stacks import OWN_NAMES, is_traced_by_us, is_under_ours
from dbg_agent.stop.inbox import unharmed
from dbg_wire.errors import error_line, printable
from dbg_wire.limits import MAX_BREAKPOINTS, MAX_CONDITION, MAX_TEXT
from dbg_wire.messages import Message, Notice
from dbg_wire.records.inspection import BreakpointChanges, BreakpointSpec, BreakpointState, LineOfFile
from dbg_wire.records.record import clamp

MAX_ROWS = 500_000
"""Maximum number of characters of an answer's rows: half of a message's limit, because JSON escapes some characters."""

NOT_LOADED = "the file is not loaded yet"


MAX_OF_RANK = 10
"""Maximum number of log texts of one rank per second: nobody reads more lines while they scroll by."""

MAX_OF_JOB = 2000
"""Maximum number of log texts of all ranks together per second. With more ranks than this, each may send one."""


class LineBreakpoint(ConditionalStop, bdb.Breakpoint):
    """A breakpoint that an IDE or an agent has set."""

    def __init__(self, file: str, line: int) -> None:
        bdb.Breakpoint.__init__(self, file, line)
        ConditionalStop.__init__(self, None)
        self.asked: dict[tuple[str, int], None] = {}
        """The files and lines for which this breakpoint was requested. Requests for several lines may lead to the same
        line with code."""
        self.hits_text = ""
        self.log_text = ""
        self.stops_at: Callable[[int], bool] | None = None
        self.log: LogText | None = None

    @property
    def shown(self) -> str:
        """The file name and line."""
        return shown(self)

    @staticmethod
    def check(hits: str, log: str) -> None:
        """Raise NoHits or NoLogText if :meth:`set_options` can't use these texts."""
        hits_of(hits)
        if log:
            LogText(log)

    def set_options(self, condition: str, hits: str, log: str) -> None:
        """Set condition, hit condition and log text. A change resets the hit count. Raise NoHits or NoLogText."""
        if (self.cond or "", self.hits_text, self.log_text) == (condition, hits, log):
            return
        self.stops_at, self.log = hits_of(hits), LogText(log) if log else None
        self.cond, self.hits_text, self.log_text = condition or None, hits, log
        self.counted, self.was_reported = 0, False

    def bpformat(self) -> str:
        """Return the lines that pdb shows for the breakpoint."""
        text = super().bpformat()
        if self.hits_text:
            text += f"\n\tstop only at hits {self.hits_text}"
        if self.log_text:
            text += f"\n\tlog {self.log_text} and continue"
        return text


def shown(one: bdb.Breakpoint) -> str:
    """Return the name of a breakpoint in messages."""
    return f"{os.path.basename(one.file)}:{one.line}"  # noqa: PTH119 - no pathlib in a rank


def line_breakpoint(file: str, line: int) -> LineBreakpoint:
    """Return the LineBreakpoint of this line, or create one. A debugger's own breakpoint at the line stays."""
    for one in bdb.Breakpoint.bplist.get((file, line), ()):
        if isinstance(one, LineBreakpoint):
            return one
    return LineBreakpoint(file, line)


class StoppedRank(Protocol):
    """The rank that the breakpoints stop."""

    @property
    def number(self) -> int:
        """The rank number."""

    def warn(self, text: str) -> None:
        """Write a line to the job's output, once."""

    def send(self, message: Message) -> None:
        """Send a message to the broker."""


class Halts(Protocol):
    """Interface to stop threads of the rank, and to record where they have halted."""

    def stop(self, frame: FrameType, reason: str, *, before_line: bool) -> None:
        """Stop the calling thread at this frame."""

    def note_halt(self, frame: FrameType) -> None:
        """Record that the frame has halted at its current line."""

    def has_just_halted(self, frame: FrameType) -> bool:
        """Return True, once per halt, if the frame has just halted at its current line."""


class LineBreakpoints:
    """The breakpoints of one process. Methods may be called from any thread.

    ``lines`` is bdb's table of lines with breakpoints, by file. ``is_halted`` returns True if the rank is stopped.
    ``has_commands`` returns True if pdb runs commands at the breakpoint with this number.
    """

    def __init__(
        self,
        rank: StoppedRank,
        halts: Halts,
        lines: dict[str, list[int]],
        *,
        world_size: int,
        is_halted: Callable[[], bool],
        has_commands: Callable[[int], bool],
    ) -> None:
        self._rank = rank
        self._halts = halts
        self._lines = lines
        self._is_halted = is_halted
        self._has_commands = has_commands
        self._log = _LogOutput(rank, world_size)
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._served: dict[str, frozenset[int]] = {}
        self._mechanism = mechanism(self.reached)
        self._traced: dict[str, frozenset[int]] = {}
        """The lines that had breakpoints when the rank was last stopped. A thread that has been traced since that stop
        stops at these lines even if the mechanism fails."""
        self._failure = ""
        """The error of `sys.monitoring` or :mod:`.at_import`. After an error only a traced thread stops at breakpoints.
        Empty if there is no error."""

    def apply(self, spec: BreakpointChanges) -> tuple[BreakpointState, ...]:
        """Clear and set the requested breakpoints; return all breakpoints of the rank, and the refused requests."""
        # Read files before taking the lock: a file system may hang, and the program takes the same lock when it stops.
        cleared = [(known, loaded_path(known.file) or known.file) for known in spec.clear]
        found = [(one, _spot_of(one)) for one in spec.set]
        with self._lock:
            for known, path in cleared:
                self._clear(known, path)
            refused = [state for one, spot in found if (state := self._set(one, spot)) is not None]
            self._refresh()
        return tuple(_bounded([*self._states(), *refused]))

    def refresh(self) -> bool:
        """Make the present breakpoints stop threads without tracing; return True if this works for all of them."""
        with self._lock:
            is_all = self._refresh()
            if self._is_halted():
                self._traced = self._served
            return is_all

    def _refresh(self) -> bool:
        wanted, is_all = self._wanted()
        if wanted != self._served:
            self._served = wanted
            # The error of an earlier call of `serve` does not apply to these lines.
            self._failure = ""
            try:
                self._mechanism.serve(wanted)
            except Exception as error:
                self._failure = f"the breakpoint takes effect at the rank's next stop ({error_line(error)})"
        return is_all and self._mechanism.replaces_tracing and not self._failure

    # --------------------------------------------------------------------------------------------------- the requests

    def _set(self, spec: BreakpointSpec, found: _Spot) -> BreakpointState | None:
        """Set a breakpoint; return its state only if it can't be set."""
        path, line, problem = found
        if line is not None:
            if len(self._all()) < MAX_BREAKPOINTS or (path, line) in bdb.Breakpoint.bplist:
                self._forget(spec.file, spec.line, unless=(path, line))
                self._set_at(path, line, spec, problem)
                return None
            problem = f"a rank has at most {MAX_BREAKPOINTS} breakpoints; clear some first"
        # The texts of condition, hits and log are omitted, because they may be too long for an answer.
        return clamp(
            BreakpointState,
            file=spec.file,
            asked=spec.line,
            line=spec.line,
            is_set=False,
            problem=printable(problem[:MAX_CONDITION]),
        )

    def _set_at(self, path: str, line: int, spec: BreakpointSpec, problem: str) -> None:
        lines = self._lines.setdefault(path, [])
        if line not in lines:
            lines.append(line)
        one = line_breakpoint(path, line)
        one.asked[spec.file, spec.line] = None
        one.problem = problem
        one.set_options(spec.condition, spec.hits, spec.log)
        one.enable()

    def _clear(self, known: LineOfFile, path: str) -> None:
        """Clear the breakpoints requested for this line. If there are none, clear a debugger's own breakpoint."""
        if self._forget(known.file, known.line):
            return
        there = self._at(path, known.line)
        for one in [one for one in there if isinstance(one, LineBreakpoint)] or there:
            self._delete(one)

    def _forget(self, file: str, line: int, unless: tuple[str, int] | None = None) -> bool:
        """Withdraw the requests for this line, and delete breakpoints that have no other request.

        ``unless`` is the file and line of a breakpoint that is not changed.
        Return True if a request for this line existed.
        """
        was_asked = False
        for one in self._all():
            if isinstance(one, LineBreakpoint) and (file, line) in one.asked and (one.file, one.line) != unless:
                was_asked = True
                del one.asked[file, line]
                if not one.asked:
                    self._delete(one)
        return was_asked

    def _delete(self, one: bdb.Breakpoint) -> None:
        file, line = one.file, one.line
        one.deleteMe()
        if (file, line) not in bdb.Breakpoint.bplist:
            lines = self._lines.get(file, [])
            if line in lines:
                lines.remove(line)
            if not lines:
                self._lines.pop(file, None)

    def _at(self, file: str, line: int) -> list[bdb.Breakpoint]:
        return [one for one in bdb.Breakpoint.bplist.get((file, line), ()) if line in self._lines.get(file, ())]

    def _all(self) -> list[bdb.Breakpoint]:
        """Return the breakpoints in order of creation, without those of the program's own debugger."""
        every = list(bdb.Breakpoint.bpbynumber)
        return [one for one in every if one is not None and one.line in self._lines.get(one.file, ())]

    # ----------------------------------------------------------------------------------------------------- the answer

    def _states(self) -> list[BreakpointState]:
        states: dict[tuple[str, int], BreakpointState] = {}
        # If a line has a requested breakpoint and a debugger's own one, the answer shows only the requested one.
        for one in sorted(self._all(), key=lambda one: not isinstance(one, LineBreakpoint)):
            if one.temporary or not os.path.isabs(one.file):  # noqa: PTH117 - no pathlib in a rank
                continue
            asked = one.asked if isinstance(one, LineBreakpoint) and one.asked else {(one.file, one.line): None}
            for file, line in asked:
                states.setdefault((file, line), self._state(one, file, line))
        return list(states.values())

    def _state(self, one: bdb.Breakpoint, file: str, line: int) -> BreakpointState:
        ours = one if isinstance(one, LineBreakpoint) else None
        return clamp(
            BreakpointState,
            file=file,
            asked=line,
            line=one.line,
            is_set=bool(one.enabled),
            problem=printable(self._what_to_know(one)),
            condition=str(one.cond or "").strip(),
            hits=ours.hits_text if ours is not None else "",
            log=ours.log_text if ours is not None else "",
            hits_so_far=ours.counted if ours is not None else one.hits,
        )

    def _what_to_know(self, one: bdb.Breakpoint) -> str:
        if not one.enabled:
            return "the breakpoint is disabled in this rank's debugger"
        if loaded_path(one.file) is None:
            return NOT_LOADED
        if isinstance(one, LineBreakpoint) and one.problem:
            return one.problem
        is_traced = self._is_halted() or one.line in self._traced.get(one.file, ())
        return "" if is_traced else self._failure or self._mechanism.problem(one.file, one.line)

    # ------------------------------------------------------------------------------------------ in the program's thread

    def reached(self, frame: FrameType, file: str, line: int) -> None:
        """Stop the calling thread if a breakpoint of this line is due.

        Exceptions of the program's own handlers propagate.
        """

        def is_due(is_traced: bool) -> bool:
            is_reached = self._is_reached(frame, is_traced)
            return is_reached and self.chosen(frame, file, line) is not None and not is_under_ours(frame)

        check_stop(frame, is_due, partial(self._stop, file, line), self._failed)

    def _is_reached(self, frame: FrameType, is_traced: bool) -> bool:
        """Return True if this class must check breakpoints at the frame's line; in a traced frame bdb checks them."""
        if os.getpid() != self._pid or self._halts.has_just_halted(frame):
            return False
        if is_traced and is_traced_by_us(frame):
            return False
        return not threading.current_thread().name.startswith(OWN_NAMES)

    def _stop(self, file: str, line: int, frame: FrameType) -> None:
        def stop() -> None:
            self._halts.stop(frame, "breakpoint", before_line=True)
            if stops_at(file, line):
                # A `--stop-at` is at the same line and is checked next. It must not stop the thread here a second time.
                self._halts.note_halt(frame)

        unharmed(stop, self._failed)

    def _failed(self, error: Exception) -> None:
        self._rank.warn(f"a breakpoint failed ({error_line(error)}); continuing")

    def chosen(self, frame: FrameType, file: str, line: int) -> bdb.Breakpoint | None:
        """Count the hits of all breakpoints of this line; return the first that stops the frame, or None."""
        there = tuple(bdb.Breakpoint.bplist.get((file, line), ()))
        stopping = [one for one in there if one.enabled and bdb.checkfuncname(one, frame) and self._stops(one, frame)]
        return stopping[0] if stopping else None

    def _stops(self, one: bdb.Breakpoint, frame: FrameType) -> bool:
        one.hits += 1
        if not self._holds(one, frame):
            return False
        ours = one if isinstance(one, LineBreakpoint) else None
        if ours is not None and ours.stops_at is not None and not ours.stops_at(ours.counted):
            return False
        if one.ignore > 0:
            one.ignore -= 1
            return False
        if ours is not None and ours.log is not None:
            self._log.print(ours.log.filled(lambda code: evaluate_at(code, frame, self._number)))
            return False
        return True

    def _holds(self, one: bdb.Breakpoint, frame: FrameType) -> bool:
        if isinstance(one, LineBreakpoint):
            return one.holds(frame, self._number, self._rank.warn)

        def raised(error: BaseException) -> None:
            self._rank.warn(f"{shown(one)}: {raised_text(error)}; stopping anyway")

        return one.cond is None or holds(str(one.cond), frame, self._number, raised)

    def _number(self) -> int:
        return self._rank.number

    def _wanted(self) -> tuple[dict[str, frozenset[int]], bool]:
        """Return the lines with breakpoints that need no traced thread, and True if these are all breakpoints."""
        wanted: dict[str, set[int]] = {}
        is_all = True
        for one in self._all():
            # These need a traced thread: bdb itself removes temporary breakpoints, pdb runs commands, and a breakpoint
            # at a function stops inside the function, not at its `def` line.
            if one.temporary or one.funcname is not None or self._has_commands(one.number):
                is_all = False
            else:
                wanted.setdefault(one.file, set()).add(one.line)
        return {file: frozenset(lines) for file, lines in wanted.items()}, is_all


class LogPace:
    """Rate limit for the log texts of one rank: a maximum per second is sent, and the others are counted.

    Any thread may use it. It has no lock, because a signal handler or a forked child could find it locked. So if two
    threads call at the same time, the count may miss one text.
    """

    def __init__(self, world_size: int) -> None:
        self._rate = max(1, min(MAX_OF_RANK, MAX_OF_JOB // world_size))
        self._second = 0
        self._sent = 0
        self._left_out = 0

    def line(self, text: str, now: float) -> str | None:
        """Return the line to send for a text, or None if the text is omitted.

        The line contains the number of texts that were omitted before this one. ``now`` is in seconds.
        """
        if int(now) != self._second:
            self._second, self._sent = int(now), 0
        if self._sent >= self._rate:
            self._left_out += 1
            return None
        self._sent += 1
        left_out, self._left_out = self._left_out, 0
        # The number is at the start, because the end of a long text is cut off later.
        return f"({left_out} more before this one: see the job's output) {text}" if left_out else text


class _LogOutput:
    """Writer of the texts of log points, to the job's output and to the broker."""

    def __init__(self, rank: StoppedRank, world_size: int) -> None:
        self._rank = rank
        self._pace = LogPace(world_size)

    def print(self, text: str) -> None:
        """Print a text; never raise."""
        try:
            print(text, flush=True)  # noqa: T201 - the job's output is where a user looks for it
        except Exception as error:
            self._rank.warn(f"a log point can't print ({type(error).__name__})")
        line = self._pace.line(printable(text), time.monotonic())
        if line is not None:
            self._rank.send(clamp(Notice, text=line, is_log=True))


class _Spot(NamedTuple):
    """The path under which the program has loaded a file, and the line where a breakpoint stops.

    The line is None if no breakpoint can be set; the problem is the reason. If there is a line, the problem is a
    warning.
    """

    path: str
    line: int | None
    problem: str


def _spot_of(spec: BreakpointSpec) -> _Spot:
    problem = _problem_of(spec)
    if problem:
        return _Spot(spec.file, None, problem)
    path = loaded_path(spec.file) or spec.file
    placed = place_in(path, spec.line)
    return _Spot(path, placed.line, placed.problem)


def _problem_of(spec: BreakpointSpec) -> str:
    """Return the reason why a request is invalid at any line; empty if it is valid."""
    if len(json.dumps([spec.file, spec.condition, spec.hits, spec.log])) > MAX_TEXT - 2 * MAX_CONDITION:
        return "file name, condition, hits and log text are too long together"
    if is_ours(spec.file):
        return "no breakpoint can be set in dbg-agent itself"
    try:
        if spec.condition:
            condition_code(spec.condition)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"the condition `{spec.condition}` is not an expression ({type(error).__name__}: {error})"
    try:
        LineBreakpoint.check(spec.hits, spec.log)
    except (NoHits, NoLogText) as error:
        return str(error)
    return ""


def _bounded(states: Iterable[BreakpointState]) -> Iterable[BreakpointState]:
    size = 0
    for count, state in enumerate(states):
        length = len(json.dumps([state.file, state.problem, state.condition, state.hits, state.log])) + 200
        if length > MAX_TEXT:
            # An answer can't contain this breakpoint: its file name, or a condition set in a debugger, is too long.
            continue
        size += length
        if size > MAX_ROWS or count >= 2 * MAX_BREAKPOINTS:
            return
        yield state
