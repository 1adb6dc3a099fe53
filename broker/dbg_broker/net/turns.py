"""Shares of the broker's time for connections, so that bytes of one connection don't delay keys of another. Pure.

What came on a connection is taken at once while the present turn of the event loop has time left and nobody waits.
Otherwise the connection waits in line, and the line has a bounded part of each of the next turns. Keys of a terminal
and their echo have a line and a time of their own, and wait for no flood. Work that one message makes for thousands of
ranks or terminals waits in the same line, for the one who sent the message.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator

from dbg_broker.net.line import Line, Share, Worker

logger = logging.getLogger("dbg_broker")

SLICE_SECONDS = 0.0005
"""Longest time for one connection before others have theirs. It is processor time of the broker: time that other
processes of the host take doesn't count against a connection."""

TURN_SECONDS = 0.002
"""Time of one turn of the event loop for keys and their echo, and as much again for all else. Either may end one
message late; the longest takes 20 ms. The sum is below 50 ms, the longest time that a flood may delay a key."""


COUNTED_SECONDS = TURN_SECONDS / 2
"""Time of one or several turns that is counted as one's. A turn of its own only to begin the count anew, for each short
message, would cost a third of what the message does."""


class _Lane:
    """A line, and the seconds that it has used of the present turn, or of the last ones if those were short."""

    def __init__(self) -> None:
        self.line = Line()
        self.spent = 0.0

    @property
    def is_free(self) -> bool:
        return not self.line and self.spent < TURN_SECONDS


class _Work:
    """Work in steps, of which each takes less than a slice; an error ends this work and nothing else."""

    def __init__(self, steps: Iterator[object]) -> None:
        self._steps = steps

    def work(self, is_over: Callable[[], bool]) -> bool:
        try:
            for _ in self._steps:
                if is_over():
                    return True
        except Exception:
            logger.exception("an error of the broker in work that was done in slices")
        return False


class Turns:
    """The order in which connections take their bytes; ``spent`` returns the broker's processor time."""

    def __init__(self, spent: Callable[[], float], schedule: Callable[[float, Callable[[], None]], object]) -> None:
        self._clock = spent
        self._schedule = schedule
        self._keys, self._others = _Lane(), _Lane()
        # When each one that waits came or had its last slice, in this order.
        self._since: OrderedDict[Worker, int] = OrderedDict()
        self._count = 0
        self._due: deque[tuple[int, Callable[[], None]]] = deque()
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._since)

    def take(self, worker: Worker, share: Share, *, types: bool) -> bool:
        """Have a worker that doesn't wait here take its bytes, now if there is time; ``types`` if these are keys.

        Return whether it waits here now.
        """
        lane = self._keys if types else self._others
        waits = not lane.is_free or self._serve(lane, worker, SLICE_SECONDS)
        if waits:
            self._put(lane, worker, share)
        if waits or lane.spent >= COUNTED_SECONDS:
            self._begin_later()
        return waits

    def begin(self, steps: Iterator[object], share: Share) -> None:
        """Begin work whose steps are the iterator's, and go on in slices; each step takes well below a millisecond."""
        self._count += 1
        own = Share(share.token, share.address, (share.connection, self._count))
        self.take(_Work(steps), own, types=False)

    def after(self, call: Callable[[], None]) -> None:
        """Call something when all that wait now have had a slice; at once if none waits."""
        if self._since:
            self._due.append((self._count, call))
        else:
            call()

    def forget(self, share: Share) -> None:
        """Forget what a connection that has ended has used."""
        self._keys.line.forget(share)
        self._others.line.forget(share)

    def _put(self, lane: _Lane, worker: Worker, share: Share) -> None:
        self._count += 1
        self._since[worker] = self._count
        lane.line.put(worker, share)

    def _serve(self, lane: _Lane, worker: Worker, seconds: float) -> bool:
        began = self._clock()
        ends = began + seconds
        has_more = worker.work(lambda: self._clock() >= ends)
        lane.spent += self._clock() - began
        return has_more

    def _begin_later(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._schedule(0, self._begin)

    def _begin(self) -> None:
        """Begin a turn with those that wait."""
        self._is_scheduled = False
        for lane in (self._keys, self._others):
            lane.spent = 0.0
            while lane.line and lane.spent < TURN_SECONDS:
                self._serve_first(lane)
        if self._since:
            self._begin_later()

    def _serve_first(self, lane: _Lane) -> None:
        worker, share = lane.line.take()
        del self._since[worker]
        before = lane.spent
        has_more = self._serve(lane, worker, min(SLICE_SECONDS, TURN_SECONDS - before))
        lane.line.charge(share, lane.spent - before)
        if has_more:
            self._put(lane, worker, share)
        while self._due and (not self._since or next(iter(self._since.values())) > self._due[0][0]):
            self._due.popleft()[1]()
