"""Shares of the broker's time for connections, so that bytes of one connection don't delay keys of another. Pure.

What came on a connection is taken at once while the present turn of the event loop has time left and nobody waits.
Otherwise the connection waits in line, and the line has a bounded part of each of the next turns. Keys of a terminal
and their echo have a line and a time of their own, and wait for no flood. Work that one message makes for thousands of
ranks or terminals waits in the same line, for the one who sent the message.
"""

from __future__ import annotations

import heapq
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple, Protocol


class Account(NamedTuple):
    """Whose time some work takes: a token's, there an address's, and there one connection's."""

    token: Hashable
    address: Hashable
    connection: Hashable


class Worker(Protocol):
    """Connection with bytes to take, or other work that can be done in slices."""

    def work(self, is_over: Callable[[], bool]) -> bool:
        """Take what came until the slice is over, at least one piece; return whether there is more to take now."""


class _Node:
    """A token, an address or a connection, and those below it that wait."""

    __slots__ = ("below", "level", "used", "waiting", "waits", "worker")

    def __init__(self) -> None:
        self.used = 0.0
        self.level = 0.0
        """Seconds used by the one below that was served last."""
        self.waits = False
        self.waiting: list[tuple[float, int, Hashable]] = []
        """The names of those below that wait, as a heap by seconds used and order of coming."""
        self.below: dict[Hashable, _Node] = {}
        self.worker: Worker | None = None


class FairQueue:
    """Workers that wait. The length is their number."""

    def __init__(self) -> None:
        self._root = _Node()
        self._serial = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(self, worker: Worker, share: Account) -> None:
        """Have a worker wait, which must not wait already."""
        place = self._root
        for name in share:
            below = place.below.get(name)
            if below is None:
                below = place.below[name] = _Node()
            self._join(place, name, below)
            place = below
        place.worker = worker
        self._size += 1

    def take(self) -> tuple[Worker, Account]:
        """Take the first worker out; :meth:`charge` follows when its slice is over. Raise IndexError if empty."""
        place, names = self._root, []
        while place.worker is None:
            place.level, _, name = heapq.heappop(place.waiting)
            place = place.below[name]
            place.waits = False
            names.append(name)
        worker, place.worker = place.worker, None
        self._size -= 1
        return worker, Account(*names)

    def charge(self, share: Account, seconds: float) -> None:
        """Note the seconds that a worker has used, which has been taken out."""
        path: list[tuple[_Node, Hashable, _Node]] = []
        above = self._root
        for name in share:
            below = above.below.get(name)
            if below is None:
                break
            below.used += seconds
            path.append((above, name, below))
            above = below
        # From below, as a token waits if one of its addresses does.
        for above, name, place in reversed(path):
            if place.waiting:
                self._join(above, name, place)
        if not self._size:
            # Nobody is to be compared with anybody.
            self._root = _Node()

    def forget(self, share: Account) -> None:
        """Forget a connection that has ended, unless it waits."""
        token = self._root.below.get(share.token)
        address = token.below.get(share.address) if token is not None else None
        if token is None or address is None:
            return
        for above, name in ((address, share.connection), (token, share.address), (self._root, share.token)):
            place = above.below.get(name)
            if place is None or place.waits or place.below:
                return
            del above.below[name]

    def _join(self, above: _Node, name: Hashable, place: _Node) -> None:
        if place.waits:
            return
        place.waits = True
        place.used = max(place.used, above.level)
        self._serial += 1
        heapq.heappush(above.waiting, (place.used, self._serial, name))


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
        self.line = FairQueue()
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

    def take(self, worker: Worker, share: Account, *, types: bool) -> bool:
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

    def begin(self, steps: Iterator[object], share: Account) -> None:
        """Begin work whose steps are the iterator's, and go on in slices; each step takes well below a millisecond."""
        self._count += 1
        own = Account(share.token, share.address, (share.connection, self._count))
        self.take(_Work(steps), own, types=False)

    def after(self, call: Callable[[], None]) -> None:
        """Call something when all that wait now have had a slice; at once if none waits."""
        if self._since:
            self._due.append((self._count, call))
        else:
            call()

    def forget(self, share: Account) -> None:
        """Forget what a connection that has ended has used."""
        self._keys.line.forget(share)
        self._others.line.forget(share)

    def _put(self, lane: _Lane, worker: Worker, share: Account) -> None:
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


STRANGERS_SECONDS = 0.001
"""Time of one turn of the event loop for all strangers. The last one may end a TLS handshake late, 1 ms; with the 10 ms
that `turns.py` gives, a turn stays far below 50 ms."""

_Queue = OrderedDict[str, deque[Worker]]
"""Connections that wait, by address; the address at the front is the next."""


class _Call:
    """One call in place of bytes to take."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def work(self, _is_over: Callable[[], bool]) -> bool:
        self._call()
        return False


class Entrance:
    """The order in which strangers take their bytes; ``spent`` returns the broker's processor time."""

    def __init__(self, spent: Callable[[], float], schedule: Callable[[float, Callable[[], None]], object]) -> None:
        self._clock = spent
        self._schedule = schedule
        self._line: _Queue = OrderedDict()
        self._slow_line: _Queue = OrderedDict()
        self._is_scheduled = False

    def __len__(self) -> int:
        return sum(len(workers) for line in (self._line, self._slow_line) for workers in line.values())

    def take(self, worker: Worker, address: str, *, is_slow: bool, is_ahead: bool = False) -> None:
        """Have a worker that doesn't wait here take its bytes when it is its turn.

        One that ``is_ahead`` of others, as its TLS handshake is complete, goes first among those of its address: it
        needs one step more, and what was spent on it isn't lost.
        """
        line = self._slow_line if is_slow else self._line
        waiting = line.setdefault(address, deque())
        if is_ahead:
            waiting.appendleft(worker)
        else:
            waiting.append(worker)
        self._begin_later()

    def call(self, begin: Callable[[], None], address: str, *, is_slow: bool) -> None:
        """Call something when a new connection of an address has its turn."""
        self.take(_Call(begin), address, is_slow=is_slow)

    def _begin_later(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._schedule(0, self._begin)

    def _begin(self) -> None:
        self._is_scheduled = False
        ends = self._clock() + STRANGERS_SECONDS
        while self._line and self._clock() < ends:
            self._serve(self._line)
        # The slow line moves even if the other one takes all the time.
        is_first = True
        while self._slow_line and (is_first or self._clock() < ends):
            self._serve(self._slow_line)
            is_first = False
        if self._line or self._slow_line:
            self._begin_later()

    def _serve(self, line: _Queue) -> None:
        """Let the first connection of the first address read one piece, and put both at the end of their lines."""
        address, workers = line.popitem(last=False)
        worker = workers.popleft()
        if worker.work(lambda: True):
            workers.append(worker)
        if workers:
            line[address] = workers
