"""The inbox of a stopped thread: keys for its debugger, and work to be done in that thread.

Work is done by the stopped thread itself because current device, grad mode and streams of a training framework
belong to the thread. Waiting is on a condition, so it costs nothing and a signal handler still runs in the main thread.
"""

from __future__ import annotations

import enum
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import TypeVar

from dbg_agent.process.threads import wait_for
from dbg_wire.codec import Input
from dbg_wire.limits import MAX_INPUT_PENDING

MAX_WORK = 256
"""Pieces of work that may wait for one stopped thread; more work is refused."""

MAX_GO_ON = 2 * MAX_WORK
"""The same bound for GoOn: a hold or a lease must end even if much other work waits."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Keys that will never be applied: ``count`` bytes of ``generation``, ending at ``offset``."""

    generation: int
    offset: int
    count: int
    reason: str


class TypedKeys:
    """One driver's keys, in order, until the debugger takes them.

    ``applied`` counts the bytes of this generation that were taken or discarded, ``received`` all bytes that came; the
    bytes between the two are pending.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.received = 0
        self._pending = bytearray()

    @property
    def applied(self) -> int:
        """Return the offset up to which all bytes were taken or discarded."""
        return self.received - len(self._pending)

    @property
    def pending(self) -> int:
        """Return how many bytes wait."""
        return len(self._pending)

    def change_driver(self, generation: int) -> Loss | None:
        """Accept only this generation from here on; keys that a former driver typed ahead are lost."""
        if generation == self.generation:
            return None
        loss = self.discard("the keyboard was handed over")
        self.generation = generation
        self.received = 0
        return loss

    def receive(self, frame: Input, *, stop: int | None, session: int | None) -> Loss | None:
        """Take a frame while ``stop`` and ``session`` are current; return the lost keys, if any.

        Bytes that came before are dropped silently: they were applied or discarded then.
        """
        if frame.generation != self.generation:
            return Loss(frame.generation, frame.offset + len(frame.data), len(frame.data), "the keyboard was taken")
        end = frame.offset + len(frame.data)
        fresh = frame.data[max(0, self.received - frame.offset) :]
        if not fresh:
            return None
        if frame.stop != stop or frame.session != session:
            # No keys are pending here: the end of a stop or session discards the keys that were typed for it.
            self.received = end
            return Loss(self.generation, end, len(fresh), "the stop it was typed for has ended")
        room = MAX_INPUT_PENDING - len(self._pending)
        if len(fresh) > room:
            # The whole frame is dropped, with all that waits, since half a paste may be a command.
            lost = len(self._pending) + len(fresh)
            self._pending.clear()
            self.received = end
            return Loss(self.generation, end, lost, f"more than {MAX_INPUT_PENDING} bytes were typed ahead")
        self.received = end
        self._pending += fresh
        return None

    def peek(self, count: int) -> bytes:
        """Return up to ``count`` waiting bytes."""
        return bytes(self._pending[:count])

    def consume(self, count: int) -> None:
        """Count the first ``count`` bytes as applied."""
        del self._pending[:count]

    def discard(self, reason: str) -> Loss | None:
        """Drop all waiting keys; return them as a Loss, or None if there are none."""
        if not self._pending:
            return None
        count = len(self._pending)
        self._pending.clear()
        return Loss(self.generation, self.received, count, reason)


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
    """Draw the whole screen again, at its current size."""


def _nothing() -> None:
    """Do nothing about work that is dropped."""


@dataclass(frozen=True, slots=True)
class RunJob:
    """Run something in the stopped thread; ``dropped`` is called if the stop ends before."""

    job: Callable[[], None]
    dropped: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True)
class Switch:
    """Leave the open debugger for another one on the same stop."""


@dataclass(frozen=True, slots=True)
class WantedMove:
    """A command ``next``, ``step``, ``return``, ``until``, ``continue``, or an IDE's ``step in``: it moves the thread.

    ``line`` is the argument of ``until``; ``frame`` is the frame to move in, if it is not the one the debugger shows.
    """

    command: str
    line: int | None = None
    frame: FrameType | None = None


MOVES = {
    "n": "next",
    "next": "next",
    "s": "step",
    "step": "step",
    "r": "return",
    "return": "return",
    "unt": "until",
    "until": "until",
    "c": "continue",
    "cont": "continue",
    "continue": "continue",
    "step over": "step over",
    "step in": "step in",
    "step out": "step out",
}
"""Commands that let the stopped thread run, by every name that pdb has for them, and the steps of an IDE."""


@dataclass(frozen=True, slots=True)
class Move:
    """Make the wanted move; ``begun`` is called in the thread right before, ``dropped`` if the stop ends before."""

    wanted: WantedMove
    begun: Callable[[], None]
    dropped: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True)
class TypedLine:
    """Give a line debugger the reply to the prompt of this number, if the prompt still stands."""

    text: str
    prompt: int


@dataclass(frozen=True, slots=True)
class BreakPrompt:
    """Raise KeyboardInterrupt in the code that waits at this prompt of a line debugger, if the prompt still stands."""

    prompt: int


Work = OpenDebugger | GoOn | Redraw | RunJob | Switch | Move | TypedLine | BreakPrompt


class ProgramRaised(BaseException):
    """The carrier of an exception that a signal handler of the program raised while its thread waited in our code.

    The exception must come out of the stop, past every clause that catches our own faults.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


Result = TypeVar("Result")


def unharmed(work: Callable[[], Result], failed: Callable[[Exception], Result]) -> Result:
    """Do work of ours in a thread of the program: what ProgramRaised carries comes out, and no fault of ours does.

    ``failed`` takes the fault.
    """
    try:
        return work()
    except ProgramRaised as raised:
        to_raise = raised.error
    except Exception as error:
        # The first promise: no fault of ours ends a training job.
        return failed(error)
    # Outside of the except block the exception keeps its own cause and context.
    raise to_raise


class LeaveDebugger(BaseException):
    """Raised to unwind the debugger from any depth; no Exception, since debuggers catch and show those."""

    def __init__(self, done: Callable[[], None]) -> None:
        super().__init__()
        self.done = done


class MoveOn(BaseException):
    """Raised to unwind the debugger from any depth and move; ``frame`` counts unless ``wanted`` names a frame."""

    def __init__(self, wanted: WantedMove, frame: FrameType | None) -> None:
        super().__init__(wanted.command)
        self.wanted = wanted
        self.frame = wanted.frame or frame


class SwitchDebugger(BaseException):
    """Raised to unwind the debugger and open another one on the same stop."""


class WayOut(enum.Enum):
    """How a debugger was left."""

    GO_ON = "go on"
    """The thread goes on; the stop is over."""
    STEP = "step"
    """The thread runs to the end of a step; the stop goes on."""
    SWITCH = "switch"
    """Another debugger is to be opened on the same stop."""


class Inbox:
    """The queue of keys and work for the one stopped thread of a process. Any thread may add; the stopped thread takes.

    Work is tagged with its stop, and dropped if that stop has ended when its turn comes.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._work: deque[tuple[int, Work]] = deque()
        self._keys = TypedKeys()
        self._ended = -1
        """The number of the last stop that has ended; -1 before the first."""

    def put(self, stop: int, work: Work) -> bool:
        """Add work for a stop; return False if too much waits already: MAX_GO_ON for GoOn, MAX_WORK for other work.

        Work for a stop that has ended is dropped.
        """
        with self._changed:
            if stop <= self._ended:
                dropped = [work]
            elif (stop, work) in self._work:
                return True
            elif len(self._work) >= (MAX_GO_ON if isinstance(work, GoOn) else MAX_WORK):
                return False
            else:
                self._work.append((stop, work))
                self._changed.notify_all()
                return True
        _drop(dropped)
        return True

    def type(self, frame: Input, current: Callable[[], tuple[int | None, int | None]]) -> Loss | None:
        """Add keys if they are for the ``current`` stop and session; return the lost keys, if any."""
        with self._changed:
            # The stop is read under this lock. A thread that ends the stop clears the keys under it, too, so no key of
            # an ended stop stays.
            stop, session = current()
            loss = self._keys.receive(frame, stop=stop, session=session)
            self._changed.notify_all()
            return loss

    def fresh(self, frame: Input) -> bytes:
        """Return the bytes of a frame that are new and of the current generation; in the thread that calls `type`."""
        with self._changed:
            known = max(0, self._keys.received - frame.offset)
            return frame.data[known:] if frame.generation == self._keys.generation else b""

    def change_driver(self, generation: int) -> Loss | None:
        """Accept keys of this generation only."""
        with self._changed:
            return self._keys.change_driver(generation)

    def end(self, stop: int, end: Callable[[], None], reason: str) -> Loss | None:
        """End a stop by calling ``end``, and drop its keys and work; return the lost keys, if any.

        One lock is held for all this: the next thread's stop may begin inside ``end``, and its keys and work stay.
        """
        with self._changed:
            end()
            self._ended = max(self._ended, stop)
            dropped = [work for number, work in self._work if number == stop]
            self._work = deque(waiting for waiting in self._work if waiting[0] != stop)
            loss = self._keys.discard(reason)
        _drop(dropped)
        return loss

    def close(self, close: Callable[[], None], reason: str) -> Loss | None:
        """End a session by calling ``close``, and drop its keys; return the lost keys, if any."""
        with self._changed:
            close()
            return self._keys.discard(reason)

    def next_work(self, stop: int) -> Work:
        """Wait in the stopped thread for the next piece of work, and leave keys in the queue."""
        while True:
            work = self.next_work_or_keys(stop, beyond=MAX_INPUT_PENDING, patience=None)
            if work is not None:
                return work

    def next_work_or_keys(self, stop: int, *, beyond: int, patience: float | None) -> Work | None:
        """Wait for work, for more than ``beyond`` bytes of keys, or for ``patience`` seconds; return work or None.

        Raise ProgramRaised with an exception of a signal handler of the program.
        """
        with self._changed:
            try:
                wait_for(self._changed, lambda: self._has_work(stop) or self._keys.pending > beyond, patience)
            except BaseException as error:
                raise ProgramRaised(error) from None
            return self._work.popleft()[1] if self._work else None

    def peek_keys(self, count: int) -> bytes:
        """Return up to ``count`` bytes of waiting keys."""
        with self._changed:
            return self._keys.peek(count)

    def consume_keys(self, count: int) -> tuple[int, int]:
        """Count keys as applied; return generation and offset to acknowledge."""
        with self._changed:
            self._keys.consume(count)
            return self._keys.generation, self._keys.applied

    def settled(self) -> tuple[int, int]:
        """Return the current generation and the offset up to which its input was taken or discarded."""
        with self._changed:
            return self._keys.generation, self._keys.applied

    def _has_work(self, stop: int) -> bool:
        while self._work and self._work[0][0] != stop:
            self._work.popleft()
        return bool(self._work)


def _drop(works: list[Work]) -> None:
    for work in works:
        if isinstance(work, RunJob | Move):
            work.dropped()
