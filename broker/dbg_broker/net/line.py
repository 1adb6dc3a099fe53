"""A line of workers in which every token, every address of it and every connection of that has a fair share. Pure.

Who has used least time is first. A thousand connections of one token have the share of one, and among themselves the
connection that asks for little does not wait for those that ask for much. Who comes into the line counts as having used
as much as the one that was served last, so that nobody saves up time by being silent.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import NamedTuple, Protocol


class Share(NamedTuple):
    """Whose time some work takes: a token's, there an address's, and there one connection's."""

    token: Hashable
    address: Hashable
    connection: Hashable


class Worker(Protocol):
    """Connection with bytes to take, or other work that can be done in slices."""

    def work(self, is_over: Callable[[], bool]) -> bool:
        """Take what came until the slice is over, at least one piece; return whether there is more to take now."""


class _Place:
    """A token, an address or a connection, and those below it that wait."""

    __slots__ = ("below", "level", "used", "waiting", "waits", "worker")

    def __init__(self) -> None:
        self.used = 0.0
        self.level = 0.0
        """Seconds used by the one below that was served last."""
        self.waits = False
        self.waiting: list[tuple[float, int, Hashable]] = []
        """The names of those below that wait, as a heap by seconds used and order of coming."""
        self.below: dict[Hashable, _Place] = {}
        self.worker: Worker | None = None


class Line:
    """Workers that wait. The length is their number."""

    def __init__(self) -> None:
        self._root = _Place()
        self._serial = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(self, worker: Worker, share: Share) -> None:
        """Have a worker wait, which must not wait already."""
        place = self._root
        for name in share:
            below = place.below.get(name)
            if below is None:
                below = place.below[name] = _Place()
            self._join(place, name, below)
            place = below
        place.worker = worker
        self._size += 1

    def take(self) -> tuple[Worker, Share]:
        """Take the first worker out; :meth:`charge` follows when its slice is over. Raise IndexError if empty."""
        place, names = self._root, []
        while place.worker is None:
            place.level, _, name = heapq.heappop(place.waiting)
            place = place.below[name]
            place.waits = False
            names.append(name)
        worker, place.worker = place.worker, None
        self._size -= 1
        return worker, Share(*names)

    def charge(self, share: Share, seconds: float) -> None:
        """Note the seconds that a worker has used, which has been taken out."""
        path: list[tuple[_Place, Hashable, _Place]] = []
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
            self._root = _Place()

    def forget(self, share: Share) -> None:
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

    def _join(self, above: _Place, name: Hashable, place: _Place) -> None:
        if place.waits:
            return
        place.waits = True
        place.used = max(place.used, above.level)
        self._serial += 1
        heapq.heappush(above.waiting, (place.used, self._serial, name))
