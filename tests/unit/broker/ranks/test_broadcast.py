"""Messages to thousands of ranks leave turns of the loop to other peers, and are followed by a rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from dbg_broker.ranks.broadcast import (
    REST_SECONDS,
    REST_SECONDS_EACH,
    SENT_AT_ONCE,
    SLICE_SECONDS,
    Broadcast,
    Broadcasts,
)
from dbg_broker.timers import Timers
from dbg_wire.messages import Kept


class Loop:
    """One source of news for so many ranks, and an event loop that makes a turn only when the test says so."""

    def __init__(self, ranks: int, cost: float = 0.0) -> None:
        self.now = 0.0
        self.cost = cost
        """Seconds that a message takes to send."""
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.keys = tuple(map(str, range(ranks)))
        self.waiting = self.asked = self.sent = 0
        self.broadcasts = Broadcasts((self.news,), lambda _: b"", self.send, Timers(lambda: self.now, self.schedule))

    def news(self) -> Iterator[Broadcast]:
        self.asked += 1
        for _ in range(min(1, self.waiting)):
            self.waiting = 0
            yield Broadcast(Kept(ranks=(1,)), self.keys, None)

    def send(self, *_: object) -> None:
        self.sent += 1
        self.now += self.cost

    def schedule(self, seconds: float, call: Callable[[], None]) -> None:
        self.due.append((self.now + seconds, call))

    def change(self) -> None:
        self.waiting += 1
        self.broadcasts.changed()

    def turn(self) -> tuple[float, int]:
        """Make the call that is due next; return how long nothing was done before, and how many ranks were told."""
        ((at, call),) = self.due
        self.due = []
        rest, before = at - self.now, self.sent
        self.now = at
        call()
        return round(rest, 6), self.sent - before


def test_a_broadcast_to_many_leaves_turns_to_others_and_is_followed_by_a_rest() -> None:
    loop = Loop(2 * SENT_AT_ONCE + 1)
    for _ in range(3):
        loop.change()
    assert [loop.turn() for _ in range(3)] == [(0, SENT_AT_ONCE), (0, SENT_AT_ONCE), (0, 1)]
    rest = round(REST_SECONDS + loop.sent * REST_SECONDS_EACH, 6)
    loop.change()
    assert [loop.turn() for _ in range(2)] == [(rest, SENT_AT_ONCE), (0, SENT_AT_ONCE)]


def test_what_is_slow_to_send_ends_a_turn_before() -> None:
    loop = Loop(3, cost=SLICE_SECONDS)
    loop.change()
    assert [loop.turn() for _ in range(3)] == [(0, 1)] * 3


def test_what_changes_during_a_broadcast_waits_for_the_next_one() -> None:
    loop = Loop(SENT_AT_ONCE + 1)
    loop.change()
    assert loop.turn() == (0, SENT_AT_ONCE)
    loop.change()
    assert (loop.turn(), loop.asked) == ((0, 1), 1)
    assert (loop.turn()[1], loop.asked) == (SENT_AT_ONCE, 2)


def test_an_error_with_one_rank_leaves_the_others_and_later_news() -> None:
    loop = Loop(3)

    def fail(*_: object) -> None:
        loop.broadcasts._send = loop.send
        raise MemoryError

    loop.broadcasts._send = fail
    loop.change()
    with pytest.raises(MemoryError):
        loop.turn()
    assert loop.turn() == (0, 2)
    loop.change()
    loop.turn()
    assert loop.sent == 5
