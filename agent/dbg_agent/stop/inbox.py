"""The inbox of a stopped thread: keys for its debugger, and work to do in that thread.

The stopped thread does the work itself, because current device, grad mode and streams of a training framework belong to
the thread. It waits on a condition, so waiting costs nothing and a signal handler still runs in the main thread.
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
"""Maximum number of work items that wait for one stopped thread; further items are rejected."""

MAX_GO_ON = 2 * MAX_WORK
"""A ResumeThread is accepted up to this number of waiting items. It is higher than MAX_WORK, because a hold or a lease
must end even if much other work waits."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Keys that will never be applied: ``count`` bytes of the driver of ``generation``, ending at ``offset``."""

    generation: int
    offset: int
    count: int
    reason: str


class TypedKeys:
    """The keys of one driver, the terminal that may type, in order, until the debugger reads them.

    ``received`` counts all bytes of this generation that arrived; ``applied`` counts the bytes that were read or
    discarded. The bytes between the two are pending.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.received = 0
        self._pending = bytearray()

    @property
    def applied(self) -> int:
        """Offset of the first byte that is neither read nor discarded."""
        return self.received - len(self._pending)

    @property
    def pending(self) -> int:
        """Number of pending bytes."""
        return len(self._pending)

    def change_driver(self, generation: int) -> Loss | None:
        """Accept only this generation from now on; keys that a former driver typed ahead are lost."""
        if generation == self.generation:
            return None
        loss = self.discard("another terminal has the keyboard now")
        self.generation = generation
        self.received = 0
        return loss

    def receive(self, frame: Input, *, stop: int | None, session: int | None) -> Loss | None:
        """Accept a frame if ``stop`` and ``session`` are current; return the lost keys, if any.

        Bytes that were received before are ignored: they are already pending, applied or discarded.
        """
        if frame.generation != self.generation:
            return Loss(frame.generation, frame.offset + len(frame.data), len(frame.data), "the keyboard was taken")
        end = frame.offset + len(frame.data)
        fresh = frame.data[max(0, self.received - frame.offset) :]
        if not fresh:
            return None
        if frame.stop != stop or frame.session != session:
            # No keys are pending here, because the end of a stop or session discards its keys.
            self.received = end
            return Loss(self.generation, end, len(fresh), "the stop it was typed for has ended")
        room = MAX_INPUT_PENDING - len(self._pending)
        if len(fresh) > room:
            # The whole frame and all pending keys are dropped, because half a paste may be a command.
            lost = len(self._pending) + len(fresh)
            self._pending.clear()
            self.received = end
            return Loss(self.generation, end, lost, f"more than {MAX_INPUT_PENDING} bytes were typed ahead")
        self.received = end
        self._pending += fresh
        return None

    def peek(self, count: int) -> bytes:
        """Return up to ``count`` pending bytes."""
        return bytes(self._pending[:count])

    def consume(self, count: int) -> None:
        """Mark the first ``count`` bytes as applied."""
        del self._pending[:count]

    def discard(self, reason: str) -> Loss | None:
        """Drop all pending keys; return them as a Loss, or None if no keys were pending."""
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
class ResumeThread:
    """Leave the debugger, even if nested dialogs are open, and resume the thread as ``c`` does; then call ``done``."""

    done: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Redraw:
    """Draw the whole screen again, at its current size."""


def _nothing() -> None:
    """Do nothing; the default callback for dropped work."""


@dataclass(frozen=True, slots=True)
class RunJob:
    """Run ``job`` in the stopped thread; ``dropped`` is called if the stop ends first."""

    job: Callable[[], None]
    dropped: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True)
class Switch:
    """Close the open debugger and open another one on the same stop."""


@dataclass(frozen=True, slots=True)
class StepRequest:
    """A command ``next``, ``step``, ``return``, ``until`` or ``continue``, or an IDE's ``step in``; it moves a thread.

    ``line`` is the argument of ``until``; ``frame`` is the frame to move in, if it is not the one that the debugger
    shows.
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
"""Commands that resume the stopped thread, by all names in pdb, and the step commands of an IDE."""


@dataclass(frozen=True, slots=True)
class Move:
    """Make the requested move; ``begun`` is called in the thread just before it, ``dropped`` if the stop ends first."""

    request: StepRequest
    begun: Callable[[], None]
    dropped: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True)
class TypedLine:
    """Send a reply to the line debugger's prompt of this number, if that prompt is still open."""

    text: str
    prompt: int


@dataclass(frozen=True, slots=True)
class BreakPrompt:
    """Raise KeyboardInterrupt in the code that waits at this prompt of a line debugger, if the prompt is still open."""

    prompt: int


Work = OpenDebugger | ResumeThread | Redraw | RunJob | Switch | Move | TypedLine | BreakPrompt


class ProgramRaised(BaseException):
    """Carries an exception that a signal handler of the program raised while its thread waited in the agent's code.

    The exception must leave the stop, past every clause that catches the agent's own faults.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


Result = TypeVar("Result")


def unharmed(work: Callable[[], Result], failed: Callable[[Exception], Result]) -> Result:
    """Run the agent's work in a thread of the program; raise only the exception that ProgramRaised carries.

    ``failed`` gets any other exception, which is a fault of the agent, and its result is returned.
    """
    try:
        return work()
    except ProgramRaised as raised:
        to_raise = raised.error
    except Exception as error:
        # The agent's first promise: its own faults never end a training job.
        return failed(error)
    # Outside of the except block the exception keeps its own cause and context.
    raise to_raise


class ExitDebugger(BaseException):
    """Raised to unwind the debugger from any depth; not an Exception, because a debugger would catch and show it."""

    def __init__(self, done: Callable[[], None]) -> None:
        super().__init__()
        self.done = done


class MoveThread(BaseException):
    """Raised to unwind the debugger from any depth and move the thread.

    The thread moves in ``frame``, unless ``request`` names another frame.
    """

    def __init__(self, request: StepRequest, frame: FrameType | None) -> None:
        super().__init__(request.command)
        self.request = request
        self.frame = request.frame or frame


class SwitchDebugger(BaseException):
    """Raised to unwind the debugger and open another one on the same stop."""


class DebuggerExit(enum.Enum):
    """Next action after a user or a command has left the debugger."""

    GO_ON = "go on"
    """The thread continues; the stop is over."""
    STEP = "step"
    """The thread runs to the end of a step; the stop continues."""
    SWITCH = "switch"
    """Another debugger is opened next on the same stop."""


class Inbox:
    """The queue of keys and work for the one stopped thread of a process.

    Any thread may add items; the stopped thread removes them. Each work item is tagged with its stop. If that stop ends
    first, the item is dropped.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._work: deque[tuple[int, Work]] = deque()
        self._keys = TypedKeys()
        self._ended = -1
        """The number of the stop that ended most recently; -1 if no stop has ended yet."""

    def put(self, stop: int, work: Work) -> bool:
        """Add work for a stop; return False if the queue is full: MAX_GO_ON for ResumeThread, MAX_WORK for other work.

        Work for a stop that has ended is dropped, and work that is already in the queue is not added twice.
        """
        with self._changed:
            if stop <= self._ended:
                dropped = [work]
            elif (stop, work) in self._work:
                return True
            elif len(self._work) >= (MAX_GO_ON if isinstance(work, ResumeThread) else MAX_WORK):
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
            # The stop is read under this lock. A thread that ends the stop clears the keys under the same lock, so no
            # key of an ended stop remains.
            stop, session = current()
            loss = self._keys.receive(frame, stop=stop, session=session)
            self._changed.notify_all()
            return loss

    def fresh(self, frame: Input) -> bytes:
        """Return the new bytes of a frame if its generation is current. Called only in the thread that calls `type`."""
        with self._changed:
            known = max(0, self._keys.received - frame.offset)
            return frame.data[known:] if frame.generation == self._keys.generation else b""

    def change_driver(self, generation: int) -> Loss | None:
        """Accept only keys of this generation."""
        with self._changed:
            return self._keys.change_driver(generation)

    def end(self, stop: int, end: Callable[[], None], reason: str) -> Loss | None:
        """End a stop by calling ``end``, and drop its keys and work; return the lost keys, if any.

        The lock is held throughout. The next thread's stop may begin inside ``end``, and the keys and work of that stop
        must not be dropped.
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
        """Wait in the stopped thread for the next work item; keys stay in the queue."""
        while True:
            work = self.next_work_or_keys(stop, beyond=MAX_INPUT_PENDING, timeout=None)
            if work is not None:
                return work

    def next_work_or_keys(self, stop: int, *, beyond: int, timeout: float | None) -> Work | None:
        """Wait for work, for more than ``beyond`` bytes of keys, or for ``timeout`` seconds; return work or None.

        Raise ProgramRaised with any exception that a signal handler of the program raises.
        """
        with self._changed:
            try:
                wait_for(self._changed, lambda: self._has_work(stop) or self._keys.pending > beyond, timeout)
            except BaseException as error:
                raise ProgramRaised(error) from None
            return self._work.popleft()[1] if self._work else None

    def peek_keys(self, count: int) -> bytes:
        """Return up to ``count`` bytes of pending keys."""
        with self._changed:
            return self._keys.peek(count)

    def consume_keys(self, count: int) -> tuple[int, int]:
        """Mark keys as applied; return generation and offset to acknowledge."""
        with self._changed:
            self._keys.consume(count)
            return self._keys.generation, self._keys.applied

    def settled(self) -> tuple[int, int]:
        """Return the current generation and the offset of the first pending byte."""
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
