"""Fair queues of the broker's time, so that bytes of one connection don't delay keys of another. Pure.

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
from typing import NamedTuple

from dbg_broker.timers import Timers

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

STRANGERS_SECONDS = 0.001
"""Time of one turn of the event loop for all strangers: with the time of the others, a turn stays far below 50 ms."""


class Account(NamedTuple):
    """Whose time some work takes: a token's, there an address's, and there one connection's."""

    token: Hashable
    address: Hashable
    connection: Hashable


Work = Callable[[Callable[[], bool]], bool]
"""Work of a connection, or other work that can be done in slices.

It is told how to learn that the slice is over, does at least one piece, and returns whether there is more to do now.
"""


class _Node:
    """A token, an address or a connection, and those below it that wait."""

    __slots__ = ("below", "level", "used", "waiting", "waits", "work")

    def __init__(self) -> None:
        self.used = 0.0
        self.level = 0.0
        """Seconds used by the one below that was served last."""
        self.waits = False
        self.waiting: list[tuple[float, int, Hashable]] = []
        """The names of those below that wait, as a heap by seconds used and order of coming."""
        self.below: dict[Hashable, _Node] = {}
        self.work: Work | None = None


class FairQueue:
    """Fair queue of work: every token, every address of it and every connection of that has a fair share of the time.

    Who has used least time is first. A thousand connections of one token have the share of one, and among themselves
    the connection that asks for little does not wait for those that ask for much. Who comes into the queue counts as
    having used as much as the one that was served last, so that nobody saves up time by being silent. The length is
    the number of those that wait.
    """

    def __init__(self) -> None:
        self._root = _Node()
        self._serial = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(self, work: Work, account: Account) -> None:
        """Have work wait, which must not wait already."""
        place = self._root
        for name in account:
            below = place.below.get(name)
            if below is None:
                below = place.below[name] = _Node()
            self._join(place, name, below)
            place = below
        place.work = work
        self._size += 1

    def pop(self) -> tuple[Work, Account]:
        """Take the first one out; :meth:`charge` follows when its slice is over. Raise IndexError if empty."""
        place, names = self._root, []
        while place.work is None:
            place.level, _, name = heapq.heappop(place.waiting)
            place = place.below[name]
            place.waits = False
            names.append(name)
        work, place.work = place.work, None
        self._size -= 1
        return work, Account(*names)

    def charge(self, account: Account, seconds: float) -> None:
        """Note the seconds that work has used which was taken out."""
        path: list[tuple[_Node, Hashable, _Node]] = []
        above = self._root
        for name in account:
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

    def forget(self, account: Account) -> None:
        """Forget a connection that has ended, unless it waits."""
        token = self._root.below.get(account.token)
        address = token.below.get(account.address) if token is not None else None
        if token is None or address is None:
            return
        for above, name in ((address, account.connection), (token, account.address), (self._root, account.token)):
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


class _Lane:
    """A line, and the seconds that it has used of the present turn, or of the last ones if those were short."""

    def __init__(self) -> None:
        self.line = FairQueue()
        self.spent = 0.0

    @property
    def is_free(self) -> bool:
        return not self.line and self.spent < TURN_SECONDS


def _in_steps(steps: Iterator[object]) -> Work:
    """Return work in steps, of which each takes less than a slice; an error ends this work and nothing else."""

    def work(is_over: Callable[[], bool]) -> bool:
        try:
            for _ in steps:
                if is_over():
                    return True
        except Exception:
            logger.exception("an error of the broker in work that was done in slices")
        return False

    return work


class Turns:
    """The order in which connections take their bytes."""

    def __init__(self, timers: Timers) -> None:
        self._clock, self._schedule = timers.spent, timers.schedule
        self._keys, self._others = _Lane(), _Lane()
        # When each one that waits came or had its last slice, in this order.
        self._since: OrderedDict[Work, int] = OrderedDict()
        self._count = 0
        self._due: deque[tuple[int, Callable[[], None]]] = deque()
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._since)

    def submit(self, work: Work, account: Account, *, types: bool) -> bool:
        """Do work that doesn't wait here, now if there is time; ``types`` if these are keys.

        Return whether it waits here now.
        """
        lane = self._keys if types else self._others
        waits = not lane.is_free or self._serve(lane, work, SLICE_SECONDS)
        if waits:
            self._put(lane, work, account)
        if waits or lane.spent >= COUNTED_SECONDS:
            self._begin_later()
        return waits

    def begin(self, steps: Iterator[object], account: Account) -> None:
        """Begin work whose steps are the iterator's, and go on in slices; each step takes well below a millisecond."""
        self._count += 1
        own = Account(account.token, account.address, (account.connection, self._count))
        self.submit(_in_steps(steps), own, types=False)

    def call_after_current_queue(self, call: Callable[[], None]) -> None:
        """Call something when all that wait now have had a slice; at once if none waits."""
        if self._since:
            self._due.append((self._count, call))
        else:
            call()

    def forget(self, account: Account) -> None:
        """Forget what a connection that has ended has used."""
        self._keys.line.forget(account)
        self._others.line.forget(account)

    def _put(self, lane: _Lane, work: Work, account: Account) -> None:
        self._count += 1
        self._since[work] = self._count
        lane.line.put(work, account)

    def _serve(self, lane: _Lane, work: Work, seconds: float) -> bool:
        began = self._clock()
        ends = began + seconds
        has_more = work(lambda: self._clock() >= ends)
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
        work, account = lane.line.pop()
        del self._since[work]
        before = lane.spent
        has_more = self._serve(lane, work, min(SLICE_SECONDS, TURN_SECONDS - before))
        lane.line.charge(account, lane.spent - before)
        if has_more:
            self._put(lane, work, account)
        while self._due and (not self._since or next(iter(self._since.values())) > self._due[0][0]):
            self._due.popleft()[1]()


_Queue = OrderedDict[str, deque[Work]]
"""Connections that wait, by address; the address at the front is the next."""


class Entrance:
    """The order in which strangers are served: those whose token is not known yet.

    All of them together have a bounded part of each turn of the event loop, whatever they ask for: a page, or a
    refusal. Addresses take it in turn, and the connections of one address in the order in which they sent something. So
    no address delays another one. Addresses with many failed attempts wait in a slow line: it has one connection's
    share of each turn, and all the time that the other line leaves.

    Nobody is served while ``has_room`` is false; :meth:`go_on` is called when it may be true again.
    """

    def __init__(self, timers: Timers, has_room: Callable[[], bool] = lambda: True) -> None:
        self._clock, self._schedule = timers.spent, timers.schedule
        self._has_room = has_room
        self._line: _Queue = OrderedDict()
        self._slow_line: _Queue = OrderedDict()
        self._owes_slow = False
        self._is_scheduled = False

    def __len__(self) -> int:
        return sum(len(works) for line in (self._line, self._slow_line) for works in line.values())

    def submit(self, work: Work, address: str, *, is_slow: bool, is_ahead: bool = False) -> None:
        """Do work that doesn't wait here when it is its turn.

        One that ``is_ahead`` of others, as much was spent on it, goes first among those of its address.
        """
        line = self._slow_line if is_slow else self._line
        waiting = line.setdefault(address, deque())
        if is_ahead:
            waiting.appendleft(work)
        else:
            waiting.append(work)
        self.go_on()

    def go_on(self) -> None:
        """Serve in the next turn of the loop, if anybody waits and there is room."""
        if not self._is_scheduled and (self._line or self._slow_line) and self._has_room():
            self._is_scheduled = True
            self._schedule(0, self._begin)

    def _begin(self) -> None:
        self._is_scheduled = False
        ends = self._clock() + STRANGERS_SECONDS
        if self._owes_slow and self._slow_line and self._has_room():
            self._serve(self._slow_line)
        while self._line and self._has_room() and self._clock() < ends:
            self._serve(self._line)
        # The slow line moves even if the other one takes all the time, or all the room.
        self._owes_slow = not self._has_room()
        is_first = True
        while self._slow_line and self._has_room() and (is_first or self._clock() < ends):
            self._serve(self._slow_line)
            is_first = False
        self.go_on()

    def _serve(self, line: _Queue) -> None:
        """Let the first connection of the first address read one piece, and put both at the end of their lines."""
        address, works = line.popitem(last=False)
        work = works.popleft()
        if work(lambda: True):
            works.append(work)
        if works:
            line[address] = works
