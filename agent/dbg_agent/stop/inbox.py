"""What reaches a stopped thread: keys for its debugger, and work to be done in that thread.

Work is done by the stopped thread itself because current device, grad mode and streams of a training framework
belong to the thread. Waiting is on a condition, so it costs nothing and a signal handler still runs in the main thread.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Union

from dbg_wire.codec import Input
from dbg_wire.limits import MAX_INPUT_PENDING

from .typed_keys import Loss, TypedKeys

MAX_WORK = 256
"""Pieces of work that may wait for one stopped thread; a thread that takes none is answered for as silent."""


MAX_GO_ON = 2 * MAX_WORK
"""The same for what lets the thread go on: a hold or a lease that ends behind much other work still ends."""


@dataclass(frozen=True, slots=True)
class OpenDebugger:
    """Open a debugger on the stop, if none is open."""

    engine: str


@dataclass(frozen=True, slots=True)
class GoOn:
    """Leave the debugger, however deep in dialogs, and let the thread go on as by ``c``; then call ``done``."""

    done: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Redraw:
    """Draw the whole screen again, at what is now its size."""


@dataclass(frozen=True, slots=True)
class RunJob:
    """Run something in the stopped thread."""

    job: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Switch:
    """Leave the open debugger for another one on the same stop."""


@dataclass(frozen=True, slots=True)
class WantedMove:
    """Say where ``next``, ``step``, ``return``, ``until`` or ``continue`` is to lead the thread.

    ``line`` is what ``until`` was given; ``frame`` is another one than the debugger shows.
    """

    command: str
    line: int | None = None
    frame: FrameType | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """Have the thread run to what is wanted; ``begun`` is called in the thread right before."""

    wanted: WantedMove
    begun: Callable[[], None]


@dataclass(frozen=True, slots=True)
class TypedLine:
    """Give a line debugger what was replied to its prompt."""

    text: str


@dataclass(frozen=True, slots=True)
class BreakPrompt:
    """Have this prompt of a line debugger raise KeyboardInterrupt in whatever asks there, if it still stands."""

    prompt: int


Work = Union[OpenDebugger, GoOn, Redraw, RunJob, Switch, Move, TypedLine, BreakPrompt]  # noqa: UP007 - evaluated at import, on 3.10 too


class ProgramRaised(BaseException):
    """Carry what a signal handler of the program raised while its thread waited in here.

    It must come out of the stop as if the program had waited by itself, past everything that catches our own faults.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class LeaveDebugger(BaseException):
    """Unwind the debugger, however deep; debuggers catch every Exception to show it, hence the base."""

    def __init__(self, done: Callable[[], None]) -> None:
        super().__init__()
        self.done = done


class MoveOn(BaseException):
    """Unwind the debugger, however deep, and move as ``wanted``, from ``frame`` on unless that names another."""

    def __init__(self, wanted: WantedMove, frame: FrameType | None) -> None:
        super().__init__(wanted.command)
        self.wanted = wanted
        self.frame = wanted.frame or frame


class SwitchDebugger(BaseException):
    """Unwind the debugger to open another one on the same stop."""


class Inbox:
    """Queue keys and work for the one stopped thread of a process; any thread may add, the stopped one takes.

    Work is tagged with the stop that it is for, and dropped if that stop has ended by the time its turn comes.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._work: deque[tuple[int, Work]] = deque()
        self._keys = TypedKeys()

    def put(self, stop: int, work: Work) -> bool:
        """Add work for a stop; return False if too much waits already. Letting it go on is never too much."""
        with self._changed:
            if (stop, work) in self._work:
                return True
            if len(self._work) >= (MAX_GO_ON if isinstance(work, GoOn) else MAX_WORK):
                return False
            self._work.append((stop, work))
            self._changed.notify_all()
            return True

    def type(self, frame: Input, current: Callable[[], tuple[int | None, int | None]]) -> Loss | None:
        """Add keys if they are for the ``current`` stop and session; return what of them is lost."""
        with self._changed:
            # Asked for under this lock: whoever ends the stop clears the keys afterwards, so none can slip through.
            stop, session = current()
            loss = self._keys.receive(frame, stop=stop, session=session)
            self._changed.notify_all()
            return loss

    def fresh(self, frame: Input) -> bytes:
        """Return what of a frame has not come before and is of the current generation; in the thread that types."""
        with self._changed:
            known = max(0, self._keys.received - frame.offset)
            return frame.data[known:] if frame.generation == self._keys.generation else b""

    def withdraw(self, stop: int, work: Work) -> bool:
        """Take back work that nobody has begun; return False if somebody has."""
        with self._changed:
            if (stop, work) not in self._work:
                return False
            self._work.remove((stop, work))
            return True

    def change_driver(self, generation: int) -> Loss | None:
        """Accept keys of this generation only."""
        with self._changed:
            return self._keys.change_driver(generation)

    def end(self, stop: int, end: Callable[[], None], reason: str) -> Loss | None:
        """End a stop by calling ``end``, and drop keys and work that were meant for it; return the keys that are lost.

        All under one lock: the next thread's stop may begin inside ``end``, and what is put for that one stays.
        """
        with self._changed:
            end()
            self._work = deque(waiting for waiting in self._work if waiting[0] != stop)
            return self._keys.discard(reason)

    def close(self, close: Callable[[], None], reason: str) -> Loss | None:
        """End a session by calling ``close``, and drop keys that were meant for it; return those that are lost."""
        with self._changed:
            close()
            return self._keys.discard(reason)

    def next_work(self, stop: int) -> Work:
        """Wait in the stopped thread for the next piece of work, leaving keys where they are."""
        while True:
            work = self.next_work_or_keys(stop, beyond=MAX_INPUT_PENDING, patience=None)
            if work is not None:
                return work

    def next_work_or_keys(self, stop: int, *, beyond: int, patience: float | None) -> Work | None:
        """Wait for work, or for more than ``beyond`` bytes of keys, or for ``patience`` seconds; work goes first.

        Raises ProgramRaised with what a signal handler of the program raised meanwhile.
        """
        with self._changed:
            try:
                self._changed.wait_for(lambda: self._has_work(stop) or self._keys.pending > beyond, patience)
            except BaseException as error:
                raise ProgramRaised(error) from None
            return self._work.popleft()[1] if self._work else None

    def peek_keys(self, count: int) -> bytes:
        """Return up to ``count`` bytes of keys that wait."""
        with self._changed:
            return self._keys.peek(count)

    def take_keys(self, count: int) -> tuple[int, int]:
        """Count keys as applied; return generation and offset to acknowledge."""
        with self._changed:
            self._keys.take(count)
            return self._keys.generation, self._keys.applied

    def settled(self) -> tuple[int, int]:
        """Return the current generation and up to which offset its input is settled."""
        with self._changed:
            return self._keys.generation, self._keys.applied

    def _has_work(self, stop: int) -> bool:
        while self._work and self._work[0][0] != stop:
            self._work.popleft()
        return bool(self._work)
