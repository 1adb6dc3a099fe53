"""Strangers have a bounded part of each turn, in which no address delays another one."""

from __future__ import annotations

from collections.abc import Callable

from dbg_broker.net.turns import STRANGERS_SECONDS, Entrance
from dbg_broker.timers import Timers

COST = STRANGERS_SECONDS / 4
"""Seconds that each piece of work takes here, in simulated time."""


class Loop:
    """An event loop with simulated time; a scheduled call runs in the next turn."""

    def __init__(self) -> None:
        self.now = 0.0
        self.done: list[str] = []
        self._next: list[Callable[[], None]] = []
        self.room = 1000
        self.entrance = Entrance(
            Timers(lambda: self.now, lambda _, call: self._next.append(call), spent=lambda: self.now),
            lambda: self.room > len(self.done),
        )

    def turn(self) -> list[str]:
        """Run the calls that are due, and return who did something."""
        self.done, due, self._next = [], self._next, []
        for call in due:
            call()
        return self.done


class Stranger:
    """A connection with some pieces to read."""

    def __init__(self, loop: Loop, name: str, pieces: int = 1) -> None:
        self.loop, self.name, self.pieces = loop, name, pieces

    def work(self, is_over: Callable[[], bool]) -> bool:
        assert is_over()
        self.pieces -= 1
        self.loop.done.append(self.name)
        self.loop.now += COST
        return self.pieces > 0


def come(loop: Loop, address: str, names: str, *, is_slow: bool = False) -> None:
    for name in names:
        loop.entrance.submit(Stranger(loop, name).work, address, is_slow=is_slow)


def test_a_turn_has_a_bounded_time_for_all_strangers() -> None:
    loop = Loop()
    come(loop, "a", "0123456789")
    assert [loop.turn() for _ in range(4)] == [list("0123"), list("4567"), list("89"), []]
    assert len(loop.entrance) == 0


def test_addresses_take_it_in_turn() -> None:
    loop = Loop()
    come(loop, "flood", "0123456789")
    come(loop, "other", "ab")
    assert loop.turn() == list("0a1b")


def test_a_connection_with_more_to_read_goes_to_the_end_of_its_addresss_line() -> None:
    loop = Loop()
    loop.entrance.submit(Stranger(loop, "x", 3).work, "a", is_slow=False)
    come(loop, "a", "y")
    assert loop.turn() == list("xyxx")


def test_the_slow_line_has_what_the_other_leaves_and_never_stands_still() -> None:
    loop = Loop()
    come(loop, "bad", "XYZ", is_slow=True)
    come(loop, "good", "012345")
    assert [loop.turn() for _ in range(3)] == [list("0123X"), list("45YZ"), []]


def test_nobody_is_served_without_room_and_the_slow_line_has_its_part_of_that() -> None:
    loop = Loop()
    loop.room = 2
    come(loop, "bad", "XYZ", is_slow=True)
    come(loop, "good", "01234567")
    turns = []
    for _ in range(4):
        turns.append(loop.turn())
        loop.done = []
        loop.entrance.go_on()
    assert turns == [list("01"), list("X2"), list("Y3"), list("Z4")]
    loop.room = 0
    assert loop.turn() == []
    assert loop.turn() == []
    assert len(loop.entrance) == 3
    loop.room = 1000
    loop.entrance.go_on()
    assert loop.turn() == list("567")


def test_one_whose_handshake_is_complete_goes_first_among_those_of_its_address() -> None:
    loop = Loop()
    come(loop, "a", "01")
    come(loop, "b", "x")
    loop.entrance.submit(Stranger(loop, "2").work, "a", is_slow=False, is_ahead=True)
    assert loop.turn() == list("2x01")
