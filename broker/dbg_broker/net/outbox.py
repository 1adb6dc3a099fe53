"""What waits for one peer: a bounded queue of frames before the transport; and work in slices, so that keys pass."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from typing import NamedTuple

from dbg_broker.timers import Timers
from dbg_wire import limits

FRAME_COST = 120
"""Bytes of memory that a frame takes beside its own bytes; without them the bound would not hold for tiny frames."""

TRANSPORT_SLACK = 128 * limits.KIB
"""Bytes that TLS and its transport may hold beside what they report: a record each, and a large frame."""

OUTBOX_BYTES = min(limits.MAX_VIEWER_BACKLOG, limits.MAX_AGENT_BACKLOG) - TRANSPORT_SLACK
"""Bytes that may wait for one peer, a rank or a terminal, those in the transport included."""


class _Waiting(NamedTuple):
    frame: bytes
    is_output: bool


class Outbox:
    """The frames to one transport: they pass, or wait in their order while it is paused, at most ``bound`` bytes.

    Terminal output beyond the bound is dropped whole, with all output that waits: the screen is drawn anew after the
    gap, so older output is of no use. No further output is taken until everything has gone out. Then :meth:`missed`
    says once that a repaint is due. Control messages are never dropped.
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
        """Tell whether a frame sent now would not wait."""
        return not self.is_paused and not self._waiting

    @property
    def waiting_bytes(self) -> int:
        """Return how many bytes wait for the peer, here, each frame's own cost included, and in the transport."""
        return self._bytes + (self.transport.get_write_buffer_size() if self.transport else 0)

    def has_room(self, size: int) -> bool:
        """Tell whether a frame of ``size`` bytes could wait."""
        return self.waiting_bytes + size + FRAME_COST <= self._bound

    # ------------------------------------------------------------------------------------------------- what is sent

    def send_output(self, frame: bytes, most: int | None = None) -> bool:
        """Send terminal output, or let it wait; False if it was dropped as the peer is behind.

        It is behind by the bound, or by ``most`` bytes that wait.
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
        """Send a control message, or let it wait; it takes the place of a waiting one of the same name ``instead_of``.

        The new message goes to the end of the queue, as it tells the latest state. Return False if it has no room: a
        terminal is closed then, and a rank misses the message.
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
        """Write bytes past all that waits."""
        if self.transport is not None:
            self.transport.write(data)

    # ------------------------------------------------------------------------------------------------- what waits

    def pump(self) -> None:
        """Write what waits for as long as the transport takes it."""
        while not self.is_paused and self._waiting:
            self._pop()

    def flush(self) -> None:
        """Write all that waits."""
        while self._waiting:
            self._pop()

    def clear(self) -> None:
        """Forget all that waits."""
        self._waiting.clear()
        self._bytes = self._outputs = 0

    def missed(self) -> bool:
        """Tell, once and as soon as nothing waits, that output was dropped and the peer is ready for a repaint."""
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
        """Drop the output that waits, and take none until all else has gone out."""
        self._skips = True
        if not self._outputs:
            # A search through the queue at each message without room would be too slow.
            return
        kept = [(name, waiting) for name, waiting in self._waiting.items() if not waiting.is_output]
        self.dropped += len(self._waiting) - len(kept)
        self._waiting = OrderedDict(kept)
        self._bytes = sum(len(waiting.frame) + FRAME_COST for _, waiting in kept)
        self._outputs = 0


logger = logging.getLogger("dbg_broker")

SLICE_SECONDS = 0.0005
"""Longest time for one piece of work before the next one has its slice, of the broker's processor time."""

TURN_SECONDS = 0.002
"""Time of one turn of the event loop for all such work."""


class Turns:
    """Queue of work, first in, first out: each piece has a slice, and goes to the end of the queue."""

    def __init__(self, timers: Timers) -> None:
        self._clock, self._schedule = timers.spent, timers.schedule
        self._waiting: deque[Iterator[object]] = deque()
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, steps: Iterator[object]) -> None:
        """Begin work whose steps are the iterator's; each step takes well below a millisecond.

        It begins at once if no other work waits.
        """
        if self._waiting or self._has_more(steps):
            self.put(steps)

    def put(self, steps: Iterator[object]) -> None:
        """Put work behind all that waits."""
        self._waiting.append(steps)
        self._go_on_later()

    def _has_more(self, steps: Iterator[object]) -> bool:
        """Do work for a slice, and return whether there is more; an error ends this work and nothing else."""
        ends = self._clock() + SLICE_SECONDS
        try:
            for _ in steps:
                if self._clock() >= ends:
                    return True
        except Exception:
            logger.exception("an error of the broker in work that was done in slices")
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
