"""Callers share the processor in turns: a newcomer is served at once, and all together stay within the budget."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

from dbg_broker.classic.connection import BYTES_PER_SECOND, MICROSECONDS_PER_SECOND, SLICE_BYTES, CallerTurns
from dbg_broker.timers import Timers


class Machine:
    """The clock, the processor and the event loop of a test."""

    def __init__(self, cost: float) -> None:
        self.now = 0.0
        self.used = 0.0
        self.cost = cost
        self.slices: dict[int, int] = {}
        self.order: list[int] = []
        self.due: deque[tuple[float, Callable[[], None]]] = deque()
        self.turns = CallerTurns(
            self.take, Timers(lambda: self.now, lambda s, do: self.due.append((s, do)), spent=lambda: self.used)
        )

    def take(self, number: int) -> tuple[int, bool]:
        self.used += self.cost
        self.now += self.cost
        self.order.append(number)
        self.slices[number] -= 1
        return SLICE_BYTES, self.slices[number] > 0

    def add(self, number: int, slices: int) -> None:
        self.slices[number] = slices
        self.turns.add(number)

    def run(self, until: float) -> None:
        while self.due and self.now < until:
            seconds, do = self.due.popleft()
            self.now += seconds
            do()


def test_dear_bytes_take_a_fifth_of_the_processor() -> None:
    machine = Machine(0.004)
    for number in range(10):
        machine.add(number, 10**9)
    machine.run(20.0)
    assert machine.used / machine.now < 1.15 * MICROSECONDS_PER_SECOND / 1e6
    assert machine.used / machine.now > 0.9 * MICROSECONDS_PER_SECOND / 1e6


def test_cheap_bytes_are_bounded_for_all_together() -> None:
    machine = Machine(0.00001)
    for number in range(10):
        machine.add(number, 10**9)
    machine.run(10.0)
    assert len(machine.order) * SLICE_BYTES / machine.now < 1.2 * BYTES_PER_SECOND


def test_a_flood_does_not_delay_who_has_little_to_say() -> None:
    machine = Machine(0.004)
    for number in range(256):
        machine.add(number, 10**9)
    machine.run(30.0)
    machine.add(999, 1)
    before = len(machine.order)
    machine.run(machine.now + 0.2)
    assert 999 in machine.order[before : before + 3]


def test_floods_share_alike_and_who_has_gone_has_no_turn() -> None:
    machine = Machine(0.004)
    for number in range(4):
        machine.add(number, 10**9)
    machine.run(10.0)
    counts = Counter(machine.order)
    assert max(counts.values()) - min(counts.values()) <= 1
    machine.turns.forget(0)
    before = len(machine.order)
    machine.run(machine.now + 1.0)
    assert 0 not in machine.order[before:]
    for number in range(1, 4):
        machine.turns.forget(number)
    machine.run(machine.now + 1.0)
    assert not machine.due


def test_turns_go_on_after_a_pause() -> None:
    machine = Machine(0.001)
    for _ in range(5):
        machine.add(1, 1)
        machine.run(machine.now + 0.01)
    assert machine.order == [1] * 5
