"""Connections before their first message: the line, and the slots for handshakes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.net.handshake_slots import EARLY_SECONDS, HANDSHAKE_SECONDS, Line, Slots

FLOOD, HONEST = "10.0.0.1", "10.0.0.2"


def test_a_flood_from_one_address_waits_behind_the_first_of_another() -> None:
    line: Line[int] = Line(100)
    for number in range(50):
        line.put(number, FLOOD)
    line.put(50, HONEST)
    assert [line.pop(lambda _: True) for _ in range(3)] == [(FLOOD, 0), (HONEST, 50), (FLOOD, 1)]


def test_address_with_most_waiting_connections_loses_its_last_one() -> None:
    line: Line[int] = Line(10)
    assert [line.put(number, FLOOD) for number in range(10)] == [None] * 10
    assert line.put(10, HONEST) == 9
    assert line.put(11, FLOOD) == 11
    assert len(line) == 10


def test_one_address_gets_at_most_half_of_the_slots() -> None:
    slots = Slots(8)
    while slots.has_room(FLOOD):
        slots.take(len(slots), FLOOD, 0.0)
    assert len(slots) == 4
    assert slots.has_room(HONEST)
    assert slots.free(0)
    assert not slots.free(0)
    assert slots.has_room(FLOOD)


def test_slots_end_early_only_while_others_wait_for_them() -> None:
    slots, line = Slots(4), Line[int](10)
    slots.take(1, FLOOD, 0.0)
    slots.take(2, HONEST, 0.0)
    assert slots.overdue(line, EARLY_SECONDS) == []
    line.put(3, FLOOD)
    assert slots.overdue(line, EARLY_SECONDS) == [1]
    slots.take(4, "10.0.0.3", 0.0)
    slots.take(5, "10.0.0.4", 0.0)
    assert slots.overdue(line, EARLY_SECONDS) == [1, 2, 4, 5]
    line.pop(lambda _: True)
    assert slots.overdue(line, HANDSHAKE_SECONDS) == [1, 2, 4, 5]


@given(st.lists(st.tuples(st.sampled_from(["put", "pop", "free"]), st.integers(0, 3))))
def test_counts_agree_after_any_steps(steps: list[tuple[str, int]]) -> None:
    line, slots = Line[int](5), Slots(4)
    count, waits, taken = 0, set[int](), dict[int, str]()
    for step, number in steps:
        if step == "put":
            count += 1
            waits.add(count)
            waits.discard(line.put(count, f"10.0.0.{number}") or 0)
        elif step == "pop" and (found := line.pop(slots.has_room)) is not None:
            taken[found[1]] = found[0]
            waits.remove(found[1])
            slots.take(found[1], found[0], 0.0)
        elif step == "free" and taken:
            assert slots.free(next(iter(taken)))
            del taken[next(iter(taken))]
        assert (len(line), len(slots)) == (len(waits), len(taken))
        assert len(line) <= 5
        assert max([*map(list(taken.values()).count, taken.values()), 0]) <= 2
