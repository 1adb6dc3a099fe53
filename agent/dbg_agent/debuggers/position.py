"""The position of a rank in its program: the stack of a thread, and the selected frame.

The thread is the stopped one or, if no thread is stopped, the program's thread. A running rank is neither traced nor
sampled for the stack. The rank is inspected when the broker probes it, every 20 s or more often, and when a user
requests its stack.

If a call, a breakpoint or a step has caused a stop, the user has chosen its frame. After any other stop, such as a
break-in, the innermost frame is mostly inside a library. So the frame of the user's own code is selected.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import islice
from types import FrameType
from typing import TYPE_CHECKING

from dbg_agent.frames.stacks import (
    FrameAt,
    NoSuchFrame,
    all_frames,
    find_frame,
    frames_of,
    frames_of_traceback,
    is_in,
    outward,
    place_of,
    program_thread,
    stack_of,
    thread_frame,
    thread_stacks,
    traceback_of,
    users_frame,
)
from dbg_agent.host.proc import read_proc
from dbg_agent.stop.stops import Halt, Stops
from dbg_wire.messages import Message, Notice
from dbg_wire.records.ranks import Place, ThreadStack
from dbg_wire.records.record import clamp

if TYPE_CHECKING:
    from dbg_agent.debuggers.engine import Engine

LOOKED_AT = 64
"""Number of innermost frames that are compared. If none of these has returned, frames further out have not returned
either."""

FREE_SECONDS = 50e-6
"""Processor time between two checks, in seconds, that a thread may use without counting as moved. A thread that entered
the kernel before the first check may still use a little processor time there before it waits."""

FREE_SHARE = 5e-6
"""Processor time that a thread may use in addition to FREE_SECONDS without counting as moved, as a fraction of the time
between the checks. A waiting thread may wake up now and then."""

POLLING_SHARE = 200e-6
"""The fraction that replaces FREE_SHARE during a call of Ray's C code that wakes up each second to check for
signals."""

_POLLING = "/ray/_private/worker.py", "get_objects"
"""The Python function that makes this call of Ray's C code: the end of its file's path, and its name."""

Seen = tuple[tuple[int, int], ...]

CHOSEN_BY_USER = "breakpoint"
"""The reason of stops whose frame the user has chosen."""


class Unmoved:
    """The place of the program's thread, its arrival time there, and its processor time, as of the latest check.

    A thread may have moved although it is at the same instruction in the same frames. A loop returns to the
    instruction, and a new frame may have the address of an old one, because Python reuses memory. The frames
    themselves are not kept for a comparison, because they would keep their variables alive, tensors among them. But a
    thread that has run through a loop has used processor time, and a waiting thread has used none. A thread that
    computes or spins in C code counts as moving.
    """

    def __init__(self, processor_time: Callable[[int], float] | None = None) -> None:
        self._processor_time = processor_time or _thread_time
        self._seen: Seen | None = None
        self._since = self._used = 0.0

    def poll(self) -> float | None:
        """Check the program's thread; return for how many seconds it has not moved, or None if it has just moved."""
        thread = program_thread()
        innermost = all_frames().get(thread)
        now, used, seen = time.monotonic(), self._processor_time(thread), _frames_from(innermost)
        elapsed = now - self._since
        share = POLLING_SHARE if is_in(innermost, *_POLLING) else FREE_SHARE
        if seen is None or seen != self._seen or used - self._used > FREE_SECONDS + share * elapsed:
            self._seen, self._since, self._used = seen, now, used
            return None
        return elapsed


def _frames_from(innermost: FrameType | None) -> Seen | None:
    return tuple((id(frame), frame.f_lasti) for frame in islice(outward(innermost), LOOKED_AT)) or None


def _thread_time(thread: int) -> float:
    if thread == threading.main_thread().ident:
        return time.clock_gettime(time.pthread_getcpuclockid(thread))
    # The clock of another thread must not be read: that thread may end first, and the C library would crash.
    native = getattr(getattr(threading, "_active", {}).get(thread), "native_id", 0)
    nanoseconds = read_proc(f"/proc/self/task/{native}/schedstat").partition(" ")[0]
    return int(nanoseconds) / 1e9 if nanoseconds.isdecimal() else 0.0


class Position:
    """The position of a rank; its methods may be called from any thread."""

    def __init__(self, halt: Halt, stops: Stops) -> None:
        self._halt = halt
        self._stops = stops
        self._unmoved = Unmoved()

    def moving_place(self) -> Place | None:
        """Return the place of the stop's thread, or of the program's thread if there is no stop.

        Return None if that thread is halted.
        """
        if self._is_current():
            return None
        frame = self._moving_frame()
        return place_of(frame) if frame is not None else None

    def stack(self) -> tuple[Place, ...]:
        """Return the stack of the stop's thread. If there is no stop, return the stack of the program's thread.

        The program's thread is the main thread, except in Ray.
        """
        crash = self._halt.crash
        if crash is not None:
            return traceback_of(crash.error.__traceback__)
        if not self._is_current():
            return stack_of(self._moving_frame())
        # A stop is reported shortly before `halt` has its frame; `arrived_at` has the frame earlier.
        return stack_of(self._halt.frame or self._stops.arrived_at)

    def threads(self) -> tuple[ThreadStack, ...]:
        """Return the stacks of all threads of the program."""
        return thread_stacks(self._stops.owner if self._is_current() else None, self.stack())

    def age(self) -> tuple[float | None, bool]:
        """Return for how many seconds the rank has had its present stack, and True if the real time may be longer.

        The seconds are None if they are unknown.
        """
        if self._is_current():
            return time.monotonic() - self._stops.halted_since, False
        if self._stops.owner not in (None, threading.main_thread().ident):
            return None, False
        seconds = self._unmoved.poll()
        return seconds, seconds is not None

    def _is_current(self) -> bool:
        return self._stops.is_halted and not self._stops.is_busy

    def _moving_frame(self) -> FrameType | None:
        """Return the innermost frame of the stop's thread, or of the program's if there is no stop."""
        return thread_frame(self._stops.owner or program_thread())


class FrameSelector:
    """The selected frame of the current stop; methods run in the stopped thread."""

    def __init__(self, halt: Halt, open_engine: Callable[[], Engine | None], send: Callable[[Message], None]) -> None:
        """Make the selector; ``open_engine`` returns the debugger that is open on the stop, if any."""
        self._halt = halt
        self._open_engine = open_engine
        self._send = send

    def start(self, reason: str) -> None:
        """Select the frame for a stop that begins for this reason; its frame and crash must be in ``halt``."""
        usual = None if reason == CHOSEN_BY_USER else users_frame(self.frames())
        self._halt.opening = usual[0] if usual is not None and usual[0] is not self._halt.frame else None

    def end(self) -> None:
        """Forget the frame because the thread moves."""
        self._halt.opening = None

    def frames(self) -> list[FrameAt]:
        """Return the program's frames at this stop, outermost first."""
        if self._halt.crash is not None:
            return frames_of_traceback(self._halt.crash.error.__traceback__)
        return frames_of(self._halt.frame)

    def find(self, selector: str) -> FrameAt | None:
        """Return the frame that a user requests, or the selected one if ``selector`` is empty.

        Return None if the thread is not halted; raise NoSuchFrame.
        """
        if selector:
            return find_frame(self.frames(), selector)
        shown = self.looked_at()
        if shown is None:
            return None
        return next((at for at in self.frames() if at[0] is shown), (shown, shown.f_lineno or 0))

    def looked_at(self) -> FrameType | None:
        """Return the frame that the open debugger shows, or the frame that a debugger would show first."""
        shown: FrameType | None = getattr(self._open_engine(), "curframe", None)
        return shown or self._halt.opening or self._halt.frame

    def is_usual(self, at: FrameAt) -> bool:
        """Return True if a debugger shows this frame first unless a user requests another."""
        return at[0] is (self._halt.opening or self._halt.frame)

    def open_at(self, selector: str) -> None:
        """Show the requested frame, now or when a debugger opens; raise NoSuchFrame."""
        frame = find_frame(self.frames(), selector)[0]
        self._halt.opening = frame if frame is not self._halt.frame else None
        engine = self._open_engine()
        if engine is not None:
            engine.select(frame)

    def open_if_there(self, selector: str) -> None:
        """Show the requested frame, or send the terminals a notice that it does not exist."""
        try:
            self.open_at(selector)
        except NoSuchFrame as error:
            self._send(clamp(Notice, text=str(error)))

    def sentence(self) -> str:
        """Return a sentence about the frame that a debugger shows first; empty if that is the frame of the stop.

        The sentence names this frame, and the innermost frame of the stop.
        """
        frames = self.frames() if self._halt.opening is not None else []
        for at in frames[:-1]:
            if at[0] is self._halt.opening:
                return f"in {_shown(at)}, inside {_shown(frames[-1])}; `d` goes down to it"
        return ""


def place_at(at: FrameAt) -> Place:
    """Return the place of a frame at its line."""
    return place_of(at[0], at[1])


def _shown(at: FrameAt) -> str:
    place = place_at(at)
    return f"{place.function} {place.file.rpartition('/')[2]}:{place.line}"
