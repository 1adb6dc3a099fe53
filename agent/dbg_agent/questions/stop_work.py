"""Work that questions have the stopped thread do, each within its time, and questions that wait until it halts.

A question whose work does not begin in time, or does not end, is answered all the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from dbg_agent.stop.inbox import GoOn, Move, RunJob
from dbg_agent.stop.stops import SLOW_STEP_SECONDS, StopPhase
from dbg_wire.errors import error_line, printable
from dbg_wire.limits import MAX_TEXT
from dbg_wire.messages import Ask, Kind

if TYPE_CHECKING:
    from dbg_agent.debuggers.position import Position
    from dbg_agent.stop.inbox import Inbox
    from dbg_agent.stop.interruptible import Interruptible
    from dbg_agent.stop.stops import Stops

ANSWER_MARGIN = 0.2
"""Part of a question's time that is kept for the answer's way: a move that takes longer is answered as running."""

SHORTEST_SECONDS = 0.05
"""Seconds that a question always has."""

MAX_PRINTED = MAX_TEXT // 4
"""Characters of the output before a move, with which the move's answer begins."""

MAX_KEPT = 100
"""Questions that wait for the end of a short step; more are answered as by a running rank."""

BUSY_SECONDS = 2 * SLOW_STEP_SECONDS
"""Seconds after which a question that waits for the program's work is answered without it: that work counts as busy."""

SOMETHING_ELSE = "its thread still opens or draws the debugger, or answers another question"
"""Why a question has not begun at a stop where the program does nothing."""

MAX_SHOWN = 80
"""Characters of a typed expression that an answer repeats."""

INTERRUPT_AGAIN_SECONDS = 1.0
"""Seconds after which work that goes on is interrupted again; the work has this time to clean up."""


class AwaitedHalts:
    """The questions that wait; ``call_later`` calls in the link's thread, and ``ask_again`` is called there."""

    def __init__(
        self,
        call_later: Callable[[float, Callable[[], None]], None],
        answer: Callable[[Ask, Kind, str], None],
        ask_again: Callable[[Ask], None],
        running_text: Callable[[], str],
    ) -> None:
        self._call_later = call_later
        self._answer = answer
        self._ask_again = ask_again
        self._running_text = running_text
        self._lock = threading.RLock()
        self._moving: list[tuple[Ask, str]] = []
        """Questions whose move has begun and not ended, and what was printed before."""
        self._kept: list[Ask] = []
        """Questions that came in the midst of a short step."""

    def move_begins(self, ask: Ask, printed: str) -> None:
        """Answer a question when its move ends, or as by a running rank before its time is over."""
        with self._lock:
            self._moving.append((ask, printed))
        patience = max(SHORTEST_SECONDS, ask.seconds * (1 - ANSWER_MARGIN))
        self._call_later(patience, partial(self._still_moving, ask))

    def keep(self, ask: Ask) -> bool:
        """Have a question asked again when the step has ended or is slow; return False if too many wait already."""
        with self._lock:
            if len(self._kept) >= MAX_KEPT:
                return False
            self._kept.append(ask)
        self._call_later(SLOW_STEP_SECONDS, partial(self._retry, ask))
        return True

    def halts(self, text: str) -> None:
        """Answer the questions whose moves have ended, and have the kept ones asked again; in the thread that moved."""
        with self._lock:
            ended, self._moving = self._moving, []
            kept = list(self._kept)
        for ask, printed in ended:
            self._answer(ask, Kind.VALUE, printed[-MAX_PRINTED:] + text)
        for ask in kept:
            self._call_later(0.0, partial(self._retry, ask))

    def cant_move(self) -> None:
        """Answer that there is no debugger to move the thread."""
        with self._lock:
            asks, self._moving = self._moving, []
        for ask, _ in asks:
            self._answer(ask, Kind.ERROR, "no debugger can be opened in this rank")

    def _still_moving(self, ask: Ask) -> None:
        with self._lock:
            waiting = [moving for moving in self._moving if moving[0] is ask]
            if not waiting:
                return
            self._moving.remove(waiting[0])
        self._answer(ask, Kind.RUNNING, self._running_text())

    def _retry(self, ask: Ask) -> None:
        with self._lock:
            kept = [waiting for waiting in self._kept if waiting is not ask]
            if len(kept) == len(self._kept):
                return
            self._kept = kept
        self._ask_again(ask)


class StopWork:
    """The work of one rank's questions; methods run in the link's thread unless they say otherwise."""

    def __init__(
        self,
        *,
        stops: Stops,
        inbox: Inbox,
        interruptible: Interruptible,
        position: Position,
        call_later: Callable[[float, Callable[[], None]], None],
        answer: Callable[[Ask, Kind, str], None],
        ask_again: Callable[[Ask], None],
    ) -> None:
        self._stops = stops
        self._inbox = inbox
        self._interruptible = interruptible
        self._position = position
        self._call_later = call_later
        self._answer = answer
        self.awaited = AwaitedHalts(call_later, answer, ask_again, self.running_text)
        self._stuck: tuple[int, str] | None = None
        """The ticket of work that an interrupt has not ended, and what is said of it; of the link's thread."""

    def at_stop(self, ask: Ask, work: Callable[[], None]) -> None:
        """Have the stopped thread do work that answers, within the question's time; answer here if the rank runs."""
        stop, asked = self.halted(ask), time.monotonic()
        if stop is not None:
            self.put(ask, stop, RunJob(lambda: self.in_time(ask, asked, work)))

    def in_time(self, ask: Ask, asked: float, job: Callable[[], None]) -> None:
        """Run ``job``, which answers, in this thread, and interrupt it at the question's deadline.

        No exception comes out except a KeyboardInterrupt that is not ours.
        """
        interruptible = self._interruptible
        patience = asked + ask.seconds * (1 - ANSWER_MARGIN) - time.monotonic()
        if patience <= 0:
            # The terminal no longer waits for the answer, and other questions may wait for this thread.
            return
        ticket = 0
        try:
            # Not at the module's top, where the link's thread would make the import.
            from dbg_agent.questions.evaluate import refusing_lone_collectives

            # An interrupt that comes within the context manager itself would leave torch changed.
            with refusing_lone_collectives(ask.asked), interruptible.running() as ticket:
                self._call_later(max(SHORTEST_SECONDS, patience), lambda: self._interrupt_work(ticket))
                still = max(SHORTEST_SECONDS, patience + ask.seconds * ANSWER_MARGIN / 2)
                self._call_later(still, lambda: self._note_stuck(ask, ticket))
                job()
        except KeyboardInterrupt:
            # Our interrupt came during the answer or just after it. Any other KeyboardInterrupt is to end the program.
            if not interruptible.was_interrupted(ticket):
                raise
            self._answer(ask, Kind.ERROR, f"interrupted after {ask.seconds:g} s")
        except Exception as error:
            # The program must not get a fault of ours as an exception.
            self._answer(ask, Kind.ERROR, not_answered(error))

    def _interrupt_work(self, ticket: int) -> None:
        """Interrupt work again and again, since typed code may catch the interrupt and go on; in the link's thread."""
        self._interruptible.interrupt(ticket)
        if self._interruptible.runs(ticket):
            self._call_later(INTERRUPT_AGAIN_SECONDS, lambda: self._interrupt_work(ticket))

    def _note_stuck(self, ask: Ask, ticket: int) -> None:
        """Answer a question whose work an interrupt has not ended, and those that wait for it; in the link's thread."""
        if self._interruptible.runs(ticket):
            typed = f"`{printable(ask.text, MAX_SHOWN)}`" if ask.text else "a question"
            self._stuck = ticket, f"its thread is still in {typed} and can't be interrupted there"
            waits = (
                "; if that is a collective, it waits for the other ranks, and gloo may abort the rank when it goes on"
            )
            self._answer(ask, Kind.ERROR, f"not done within {ask.seconds:g} s: {self._stuck[1]}{waits}")

    @property
    def _stuck_text(self) -> str:
        """Return what keeps the stopped thread from any other work; empty if nothing does."""
        if self._stuck is not None and not self._interruptible.runs(self._stuck[0]):
            self._stuck = None
        return self._stuck[1] if self._stuck is not None else ""

    def halted(self, ask: Ask) -> int | None:
        """Return the stop's number; answer and return None while the rank runs."""
        stops = self._stops
        stop, _ = stops.current
        if stop is not None and stops.is_in_short_step and self.awaited.keep(ask):
            return None
        if stop is None or stops.phase is StopPhase.STEPPING or stops.is_busy:
            self._answer(ask, Kind.RUNNING, self.running_text())
            return None
        return stop

    def running_text(self) -> str:
        """Return that the rank runs, and where."""
        where = self._position.moving_place()
        return f"running, {where.file}:{where.line}" if where else "running"

    def put(self, ask: Ask, stop: int, work: GoOn | RunJob | Move) -> None:
        """Have the stopped thread do work that answers; answer here if it does not begin in time."""
        if not self._inbox.put(stop, work):
            self._answer(ask, Kind.ERROR, "too much waits already for this rank's stopped thread")
        else:
            left = ask.seconds * (1 - ANSWER_MARGIN) - BUSY_SECONDS
            self._call_later(BUSY_SECONDS, lambda: self._not_begun(ask, stop, work, left))

    def _not_begun(self, ask: Ask, stop: int, work: GoOn | RunJob | Move, left: float) -> None:
        """Answer a question that waits for the program's work, or for that of another question, which may never end.

        A debugger that draws comes to an end by itself, so the question waits for it for the seconds that are left.
        """
        stuck, is_busy, inbox = self._stuck_text, self._stops.is_busy, self._inbox
        if left > 0 and not stuck and not is_busy:
            if inbox.has(stop, work):
                self._call_later(left, lambda: self._not_begun(ask, stop, work, 0.0))
            return
        if not inbox.withdraw(stop, work):
            return
        if stuck:
            self._answer(ask, Kind.ERROR, stuck)
        elif is_busy:
            self._answer(ask, Kind.RUNNING, self.running_text())
        else:
            self._answer(ask, Kind.ERROR, f"not begun within {ask.seconds:g} s: {SOMETHING_ELSE}")


def not_answered(error: Exception) -> str:
    """Return the answer to a question that we fail to answer."""
    return f"can't be answered ({error_line(error)})"
