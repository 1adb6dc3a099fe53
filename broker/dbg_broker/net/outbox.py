"""Queues: frames that wait for one peer's transport, and tasks that run in slices so that they do not delay keys."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from typing import NamedTuple

from dbg_broker.timers import Timers
from dbg_wire import limits

FRAME_COST = 120
"""Memory of a queued frame in addition to its bytes; without it, tiny frames could use far more than the limit."""

TRANSPORT_SLACK = 128 * limits.KIB
"""Bytes that TLS and its transport may store in addition to the size that they report: one TLS record each, and one
large frame.
"""

OUTBOX_BYTES = min(limits.MAX_VIEWER_BACKLOG, limits.MAX_AGENT_BACKLOG) - TRANSPORT_SLACK
"""Maximum number of bytes that wait for one peer, a rank or a terminal, including those in the transport."""


class _Waiting(NamedTuple):
    frame: bytes
    is_output: bool


class Outbox:
    """Frames for one transport. While the transport is paused, they are queued in order, at most ``bound`` bytes.

    Terminal output beyond the limit is dropped together with all queued output: the screen is redrawn after the gap, so
    older output is useless. No more output is accepted until the queue is empty. Then :meth:`missed` reports once that
    a repaint is due. A queued control message is never dropped, only replaced.
    """

    __slots__ = (
        "_bound",
        "_bytes",
        "_outputs",
        "_serial",
        "_skips",
        "_waiting",
        "dropped",
        "is_paused",
        "transport",
    )

    def __init__(self, bound: int = OUTBOX_BYTES) -> None:
        self.transport: asyncio.WriteTransport | None = None
        self.is_paused = False
        self.dropped = 0
        self._bound = bound
        self._waiting: OrderedDict[Hashable, _Waiting] = OrderedDict()
        self._bytes = 0
        self._outputs = 0
        self._serial = 0
        self._skips = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_free(self) -> bool:
        """Whether a frame can be sent now without waiting."""
        return not self.is_paused and not self._waiting

    @property
    def waiting_bytes(self) -> int:
        """Number of bytes that wait for the peer: in this queue, with each frame's own cost, and in the transport."""
        return self._bytes + (self.transport.get_write_buffer_size() if self.transport else 0)

    def has_room(self, size: int) -> bool:
        """Return True if a frame of ``size`` bytes fits into the queue."""
        return self.waiting_bytes + size + FRAME_COST <= self._bound

    # ----------------------------------------------------------------------------------------------------------- output

    def send_output(self, frame: bytes, most: int | None = None) -> bool:
        """Send or queue terminal output. Return False if it was dropped because the peer is behind.

        The peer is behind if the limit, or ``most`` queued bytes, would be exceeded.
        """
        if self._skips:
            self.dropped += 1
            return False
        if self.is_free:
            self.write(frame)
            return True
        is_late = most is not None and self._bytes + len(frame) > most
        if is_late or not self.has_room(len(frame)):
            self._drop_output()
            self.dropped += 1
            return False
        self._put(frame, None, True)
        return True

    def send_control(self, frame: bytes, instead_of: Hashable = None) -> bool:
        """Send or queue a control message; ``instead_of`` names a queued message that it replaces.

        The new message goes to the end of the queue, because it has the latest state. Return False if it does not fit.
        The caller then closes the connection of a terminal; a rank stays connected without this message.
        """
        if self.is_free:
            self.write(frame)
            return True
        if instead_of is not None and (old := self._waiting.pop(instead_of, None)) is not None:
            self._bytes -= len(old.frame) + FRAME_COST
        if not self.has_room(len(frame)):
            self._drop_output()
            if not self.has_room(len(frame)):
                return False
        self._put(frame, instead_of, False)
        return True

    def write(self, data: bytes) -> None:
        """Write bytes before everything that is queued."""
        if self.transport is not None:
            self.transport.write(data)

    # ------------------------------------------------------------------------------------------------------------ queue

    def pump(self) -> None:
        """Write queued frames while the transport accepts them."""
        while not self.is_paused and self._waiting:
            self._pop()

    def flush(self) -> None:
        """Write all queued frames."""
        while self._waiting:
            self._pop()

    def clear(self) -> None:
        """Drop all queued frames."""
        self._waiting.clear()
        self._bytes = self._outputs = 0

    def missed(self) -> bool:
        """Return True if output was dropped and the queue is empty: a repaint is due. A later call returns False."""
        if not self._skips or self._waiting:
            return False
        self._skips = False
        return True

    def _pop(self) -> None:
        _, (frame, is_output) = self._waiting.popitem(last=False)
        self._outputs -= is_output
        self._bytes -= len(frame) + FRAME_COST
        self.write(frame)

    def _put(self, frame: bytes, name: Hashable, is_output: bool) -> None:
        self._serial += 1
        self._waiting[self._serial if name is None else name] = _Waiting(frame, is_output)
        self._outputs += is_output
        self._bytes += len(frame) + FRAME_COST

    def _drop_output(self) -> None:
        """Drop the queued output, and accept no more until everything else has been written."""
        self._skips = True
        if not self._outputs:
            # No output is queued, so there is nothing to drop. A search of the queue for each message that does not fit
            # would be too slow.
            return
        kept = [(name, waiting) for name, waiting in self._waiting.items() if not waiting.is_output]
        self.dropped += len(self._waiting) - len(kept)
        self._waiting = OrderedDict(kept)
        self._bytes = sum(len(waiting.frame) + FRAME_COST for _, waiting in kept)
        self._outputs = 0


logger = logging.getLogger("dbg_broker")

SLICE_SECONDS = 0.0005
"""Maximum processor time of one task before the next task gets its slice, in seconds."""

TURN_SECONDS = 0.002
"""Maximum processor time of all tasks in one turn of the event loop, in seconds."""


class Turns:
    """Queue of tasks, first in, first out: each task gets a slice of time, and then goes to the end of the queue."""

    def __init__(self, timers: Timers) -> None:
        self._clock, self._schedule = timers.spent, timers.schedule
        self._waiting: deque[Iterator[object]] = deque()
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._waiting)

    def start(self, steps: Iterator[object]) -> None:
        """Start a task; each item of ``steps`` ends one step, which takes well below a millisecond.

        The first slice runs at once if no other task waits.
        """
        if self._waiting or self._has_more(steps):
            self.put(steps)

    def put(self, steps: Iterator[object]) -> None:
        """Put a task at the end of the queue."""
        self._waiting.append(steps)
        self._go_on_later()

    def _has_more(self, steps: Iterator[object]) -> bool:
        """Run a task for a slice of time. Return True if it has more steps. An error ends only this task."""
        ends = self._clock() + SLICE_SECONDS
        try:
            for _ in steps:
                if self._clock() >= ends:
                    return True
        except Exception:
            logger.exception("internal error in a background task")
        return False

    def _go_on_later(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._schedule(0, self._go_on)

    def _go_on(self) -> None:
        self._is_scheduled = False
        ends = self._clock() + TURN_SECONDS
        while self._waiting and self._clock() < ends:
            steps = self._waiting.popleft()
            if self._has_more(steps):
                self._waiting.append(steps)
        if self._waiting:
            self._go_on_later()
