"""Questions that wait until the stopped thread halts: at the end of a move of their own, or of a step that goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from dbg_agent.stop.stops import SLOW_STEP_SECONDS
from dbg_wire.limits import MAX_TEXT
from dbg_wire.messages import Ask, Kind

ANSWER_MARGIN = 0.2
"""Part of a question's time that is kept for the answer's way: a move that takes longer is answered as running."""

SHORTEST_SECONDS = 0.05
"""Seconds that a question always has."""

MAX_PRINTED = MAX_TEXT // 4
"""Characters of the output before a move, with which the move's answer begins."""

MAX_KEPT = 100
"""Questions that wait for the end of a short step; more are answered as by a running rank."""


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
