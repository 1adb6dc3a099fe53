"""Break-in by a real-time signal: its handler stops the main thread, or evaluates an expression in it and returns.

The debugger runs inside the handler. A handler that only started the tracing would stop the thread too late: Python
first resumes a ``sleep``, or a wait for a lock, that the signal has interrupted.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from dbg_agent.frames.stacks import NoSuchFrame, has_room, is_at_end, is_under_ours, thread_frame
from dbg_agent.stop.inbox import unharmed
from dbg_wire.errors import error_line
from dbg_wire.messages import Ask, Kind, answer_to

if TYPE_CHECKING:
    from dbg_agent.debuggers.position import FrameSelector, Position
    from dbg_agent.link.outgoing import ToBroker
    from dbg_agent.stop.stops import Stops

BREAK_IN_SIGNAL = signal.SIGRTMIN + 7 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR2
"""Signal that requests a stop of the main thread. Programs and launchers use SIGUSR1 and SIGUSR2, but not this
signal."""

AT_ONCE_SECONDS = 0.25
"""Time in seconds after which a thread that has not stopped is assumed to be in C code; Python code stops within 50
ms."""

AGAIN_SECONDS = 0.05
"""Time in seconds after which the signal is sent again if it interrupted code of the agent, which may hold locks."""

TAKEN = f"the rank can't be broken into: the program uses signal {int(BREAK_IN_SIGNAL)} itself"

NOT_INSTALLED = "the rank can't be broken into: it runs without install() or `python -m dbg_agent`"


class BreakIn:
    """The requests to the running main thread.

    Methods run in the link's thread unless their docstring names another thread.
    """

    def __init__(
        self,
        broker: ToBroker,
        stops: Stops,
        view: FrameSelector,
        position: Position,
        stop_at: Callable[[FrameType, str], None],
    ) -> None:
        """Keep the parts of the rank; ``stop_at`` stops the calling thread at a frame, for a reason."""
        self._broker = broker
        self._stops = stops
        self._view = view
        self._position = position
        self._stop_at = stop_at
        self._lock = threading.RLock()
        self._asks: list[Ask] = []
        self._wanted = 0
        """Number of requests for a stop that has not begun yet."""
        self._frame = ""
        """The frame that a terminal wants to see once the thread has stopped."""
        self._live: deque[tuple[Ask, Callable[[FrameType], None]]] = deque()
        self._is_ending = False
        """Whether the most recent signal found the main thread in an excepthook or after the program's end."""
        self._former: Any = None
        self._problem = NOT_INSTALLED
        self._seen: tuple[int, int] | None = None
        self._seen_since = 0.0
        self.installed = False

    # ---------------------------------------------------------------------------------------------- in the main thread

    def install(self) -> None:
        """Set the signal's handler, unless another one is set; Python allows this only in the main thread."""
        if self.installed:
            return
        if threading.current_thread() is not threading.main_thread():
            self._problem = "the rank can't be broken into: install() was called outside of the main thread"
            return
        if signal.getsignal(BREAK_IN_SIGNAL) not in (signal.SIG_DFL, None):
            self._problem = TAKEN
            return
        self._former = signal.signal(BREAK_IN_SIGNAL, self._handle)
        self.installed = True

    def uninstall(self) -> None:
        """Restore the signal's former handler; called in the main thread."""
        if self.installed and threading.current_thread() is threading.main_thread():
            self.forget()
            self.installed = False
            self._problem = NOT_INSTALLED

    def forget(self) -> None:
        """Restore the signal's former handler, unless the program has set its own; a forked child does this, too."""
        if self.installed and self._is_ours():
            # The signal may still be pending if the program blocks it. SIG_IGN drops a pending signal; the signal's
            # default action would end the process.
            signal.signal(BREAK_IN_SIGNAL, signal.SIG_IGN)
            signal.signal(BREAK_IN_SIGNAL, self._former if self._former is not None else signal.SIG_DFL)

    def _is_ours(self) -> bool:
        return signal.getsignal(BREAK_IN_SIGNAL) == self._handle

    def _handle(self, _number: int, frame: FrameType | None) -> None:
        """Stop, or do the requested work and continue; exceptions of the program's own handlers propagate."""
        if frame is None:
            return
        if is_under_ours(frame) or not has_room():
            # A stop here could wait forever for a lock that the interrupted code holds, or run out of stack halfway.
            self._broker.call_later(AGAIN_SECONDS, self._again)
            return
        unharmed(partial(self._answer_or_stop, frame), self._failed)

    def _failed(self, error: Exception) -> None:
        self._broker.warn(f"the break-in failed ({error_line(error)}); continuing")

    def _answer_or_stop(self, frame: FrameType) -> None:
        self._answer_live(frame)
        if not self._wanted:
            return
        self._is_ending = is_at_end(frame)
        if self._is_ending:
            # No user expects a stop in an excepthook or at the program's end. If the program continues after its
            # excepthook, it stops then.
            self._broker.call_later(AGAIN_SECONDS, self._again)
            return
        self._stop_at(frame, "interrupt")

    def _answer_live(self, frame: FrameType) -> None:
        # Tracing is switched off, because a step would otherwise enter the evaluated expression.
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            while (job := self._next_live()) is not None:
                job(frame)
        finally:
            sys.settrace(tracer)

    def _next_live(self) -> Callable[[FrameType], None] | None:
        try:
            return self._live.popleft()[1]
        except IndexError:
            # No question waits any more. The link's thread removes questions that have waited too long, and answers
            # them.
            return None

    def arrived(self) -> None:
        """Answer the terminals that requested a stop, because there is one now; runs in the stopped thread."""
        with self._lock:
            asks, self._asks = self._asks, []
            frame, self._frame = self._frame, ""
            self._wanted = 0
            # The recorded place is forgotten, because a frame after the stop may have the id of an earlier frame.
            self._seen = None
        problem = self._open_at(frame) if frame else ""
        for ask in asks:
            if problem and ask.frame == frame:
                self._answer(ask, Kind.ERROR, problem)
            else:
                self._answer(ask, Kind.VALUE, self._stops.state_word)

    def _open_at(self, frame: str) -> str:
        """Make the debugger open at this frame; return the problem, or an empty text."""
        try:
            self._view.open_at(frame)
        except NoSuchFrame as error:
            return str(error)
        return ""

    # ------------------------------------------------------------------------------------------- in the link's thread

    def stop(self, ask: Ask | None) -> None:
        """Make the main thread stop.

        ``ask`` is answered when the thread has stopped. If the thread is in C code, ``ask`` is answered soon, with the
        thread's place.
        """
        if self._is_refused(ask):
            return
        with self._lock:
            self._wanted += 1
            if ask is not None:
                self._asks.append(ask)
                self._frame = ask.frame
        # Messages that have already arrived are read first, because one of them may withdraw this request.
        self._broker.call_later(0.0, self._again)
        if ask is not None:
            self._broker.call_later(AT_ONCE_SECONDS, lambda: self._not_yet(ask))

    def withdraw(self) -> None:
        """Withdraw one request for a stop."""
        with self._lock:
            self._wanted = max(0, self._wanted - 1)
            self._frame = self._frame if self._wanted else ""

    def ask(self, ask: Ask, job: Callable[[FrameType], None]) -> None:
        """Make the main thread run ``job`` with its current frame and then continue."""
        if self._is_refused(ask):
            return
        self._live.append((ask, job))
        self._signal()
        self._broker.call_later(ask.seconds / 2, lambda: self._live_not_yet(ask))

    def _is_refused(self, ask: Ask | None) -> bool:
        """Return True, and answer why, if the signal must not be sent: without a handler it would end the process."""
        problem = self._problem if not self.installed else TAKEN if not self._is_ours() else None
        if problem is not None and ask is not None:
            self._answer(ask, Kind.ERROR, problem)
        return problem is not None

    def note(self) -> None:
        """Record the main thread's place and its arrival time there, for answers that report the time since then."""
        frame = thread_frame(threading.main_thread().ident)
        seen = (id(frame), frame.f_lasti) if frame is not None else None
        if seen != self._seen:
            self._seen, self._seen_since = seen, time.monotonic()

    def _signal(self) -> None:
        main = threading.main_thread().ident
        if main is not None and self._is_ours():
            signal.pthread_kill(main, BREAK_IN_SIGNAL)

    def _again(self) -> None:
        if self._wanted or self._live:
            self._signal()

    def _not_yet(self, ask: Ask) -> None:
        with self._lock:
            if ask not in self._asks:
                return
            self._asks.remove(ask)
        text = "at its end, where it no longer stops" if self._is_ending else f"{self._in_c_code()}; stops on return"
        self._answer(ask, Kind.RUNNING, text)

    def _live_not_yet(self, ask: Ask) -> None:
        for waiting in tuple(self._live):
            if waiting[0] is ask:
                try:
                    self._live.remove(waiting)
                except ValueError:
                    # The main thread has just started to answer this question.
                    return
                self._answer(ask, Kind.RUNNING, self._in_c_code())

    def _answer(self, ask: Ask, kind: Kind, text: str) -> None:
        self._broker.send(answer_to(ask.request, kind, text))

    def _in_c_code(self) -> str:
        self.note()
        where = self._position.moving_place()
        place = f"{where.file}:{where.line} {where.function}" if where is not None else "nowhere"
        return f"in C code at {place} for {time.monotonic() - self._seen_since:.0f} s"
