"""Shares of the broker's time for connections whose token is not known yet. Pure.

All of them together have a bounded part of each turn of the event loop, whatever they ask for: a TLS handshake, a page,
or a refusal. Addresses take it in turn, and the connections of one address in the order in which they sent something.
So no address delays another one. Addresses with many failed attempts wait in a slow line: it has one connection's share
of each turn, and all the time that the other line leaves.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable

from dbg_broker.net.turns import Worker

STRANGERS_SECONDS = 0.004
"""Time of one turn of the event loop for all strangers. The last one may end a TLS handshake late, 1.5 ms; with the
10 ms that `turns.py` gives, a turn stays far below 50 ms."""

Line = OrderedDict[str, deque[Worker]]
"""Connections that wait, by address; the address at the front is the next."""


class Entrance:
    """The order in which strangers take their bytes; ``spent`` returns the broker's processor time."""

    def __init__(self, spent: Callable[[], float], schedule: Callable[[float, Callable[[], None]], object]) -> None:
        self._clock = spent
        self._schedule = schedule
        self._line: Line = OrderedDict()
        self._slow_line: Line = OrderedDict()
        self._is_scheduled = False

    def __len__(self) -> int:
        return sum(len(workers) for line in (self._line, self._slow_line) for workers in line.values())

    def take(self, worker: Worker, address: str, *, is_slow: bool) -> None:
        """Have a worker that doesn't wait here take its bytes when it is its turn."""
        line = self._slow_line if is_slow else self._line
        line.setdefault(address, deque()).append(worker)
        self._begin_later()

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

    def _serve(self, line: Line) -> None:
        """Let the first connection of the first address read one piece, and put both at the end of their lines."""
        address, workers = line.popitem(last=False)
        worker = workers.popleft()
        if worker.work(lambda: True):
            workers.append(worker)
        if workers:
            line[address] = workers
