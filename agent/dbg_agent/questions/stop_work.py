"""The work of questions in the stopped thread, each with a time limit, and the answers to moves when they end.

The broker's deadline ends a question. The work is interrupted a little earlier, so that the answer can report the
interrupt.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from dbg_agent.debuggers.position import Position
from dbg_agent.stop.inbox import Inbox, Move, ResumeThread, RunJob
from dbg_agent.stop.interruptible import Interruptible
from dbg_agent.stop.stops import Stops
from dbg_wire.errors import error_line
from dbg_wire.limits import MAX_TEXT
from dbg_wire.messages import Ask, Kind

ANSWER_MARGIN = 0.2
"""Fraction of a question's time that is reserved for sending the answer. A move that has not ended before this last
part of the time is answered as running."""

SHORTEST_SECONDS = 0.05
"""Minimum time for a question, in seconds."""

MAX_PRINTED = MAX_TEXT // 4
"""Maximum number of characters of the output before a move; the move's answer begins with this output."""

INTERRUPT_AGAIN_SECONDS = 1.0
"""Time in seconds after which interrupted work that has not ended is interrupted again; it has this time to clean
up."""


@dataclass(kw_only=True, eq=False)
class StopWork:
    """The work of one rank's questions; methods run in the link's thread unless their docstring names another."""

    stops: Stops
    inbox: Inbox
    interruptible: Interruptible
    position: Position
    call_later: Callable[[float, Callable[[], None]], None]
    answer: Callable[[Ask, Kind, str], None]

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._moving: list[tuple[Ask, str]] = []
        """Unanswered questions whose commands have made the stopped thread move, each with the text that its command
        printed before the move. They are answered when the move ends."""

    def at_stop(self, ask: Ask, work: Callable[[], None], dropped: Callable[[], None] | None = None) -> None:
        """Make the stopped thread run work that sends the answer in time; if the rank runs, answer here.

        ``dropped`` sends the answer if the stop ends first.
        """
        stop, asked = self.halted(ask), time.monotonic()
        if stop is not None:
            self.put(ask, stop, RunJob(lambda: self.in_time(ask, asked, work), dropped or partial(self.reject, ask)))

    def halted(self, ask: Ask) -> int | None:
        """Return the stop's number; if the rank runs, answer and return None.

        Work for a thread in a short step waits in the inbox for the end of the step.
        """
        stops = self.stops
        stop, _ = stops.current
        if stop is None or stops.is_busy or not (stops.is_halted or stops.is_in_short_step):
            self.reject(ask)
            return None
        return stop

    def reject(self, ask: Ask) -> None:
        """Answer that the rank runs, and so can't do the requested work."""
        self.answer(ask, Kind.RUNNING, self.running_text())

    def put(self, ask: Ask, stop: int, work: ResumeThread | RunJob | Move) -> None:
        """Make the stopped thread run work that sends the answer."""
        if not self.inbox.put(stop, work):
            self.answer(ask, Kind.ERROR, "too much work is waiting for this rank's stopped thread; try again")

    def running_text(self) -> str:
        """Return ``running``, with the present place if it is known."""
        where = self.position.moving_place()
        return f"running, {where.file}:{where.line}" if where else "running"

    # -------------------------------------------------------------------------------------------- in the working thread

    def in_time(self, ask: Ask, asked: float, job: Callable[[], None]) -> None:
        """Run ``job``, which sends the answer, in this thread, and interrupt it before the question's deadline.

        No exception propagates except a KeyboardInterrupt that the agent did not cause.
        """
        interruptible = self.interruptible
        timeout = asked + ask.seconds * (1 - ANSWER_MARGIN) - time.monotonic()
        if timeout <= 0:
            # The terminal no longer waits for the answer, and other questions may wait for this thread.
            return
        ticket = 0
        try:
            # This import is not at the module's top, where the link's thread would run it.
            from dbg_agent.questions.evaluate import refusing_lone_collectives

            # `running` is entered last, so no interrupt arrives in the code of `refusing_lone_collectives`, where the
            # interrupt would leave torch changed.
            with refusing_lone_collectives(ask.asked), interruptible.running() as ticket:
                self.call_later(max(SHORTEST_SECONDS, timeout), lambda: self._interrupt(ticket))
                job()
        except KeyboardInterrupt:
            # The agent's interrupt arrived during the answer or just after it. Any other KeyboardInterrupt must end the
            # program.
            if not interruptible.was_interrupted(ticket):
                raise
            self.answer(ask, Kind.ERROR, f"interrupted after {ask.seconds:g} s")
        except Exception as error:
            # A fault of the agent must not reach the program as an exception.
            self.answer(ask, Kind.ERROR, not_answered(error))

    def _interrupt(self, ticket: int) -> None:
        """Interrupt work repeatedly, because typed code may catch the interrupt; runs in the link's thread."""
        self.interruptible.interrupt(ticket)
        if self.interruptible.runs(ticket):
            self.call_later(INTERRUPT_AGAIN_SECONDS, lambda: self._interrupt(ticket))

    # ----------------------------------------------------------------------------------------------------------- moves

    def move_begins(self, ask: Ask, printed: str) -> None:
        """Answer a question when its move ends. If the move takes too long, answer ``running`` before the deadline.

        Runs in the thread that moves.
        """
        with self._lock:
            self._moving.append((ask, printed))
        timeout = max(SHORTEST_SECONDS, ask.seconds * (1 - ANSWER_MARGIN))
        self.call_later(timeout, partial(self._still_moving, ask))

    def move_ends(self, kind: Kind, text: str) -> None:
        """Answer the questions that requested a move, because the move has ended or can't be made.

        Runs in the thread that moved.
        """
        with self._lock:
            ended, self._moving = self._moving, []
        for ask, printed in ended:
            self.answer(ask, kind, printed[-MAX_PRINTED:] + text)

    def _still_moving(self, ask: Ask) -> None:
        with self._lock:
            waiting = [moving for moving in self._moving if moving[0] is ask]
            if not waiting:
                return
            self._moving.remove(waiting[0])
        self.answer(ask, Kind.RUNNING, self.running_text())


def not_answered(error: Exception) -> str:
    """Return the answer to a question that the agent fails to answer."""
    return f"the question can't be answered ({error_line(error)})"
