"""Ended ranks stay listed within a bound in bytes; a rank of unusual size goes before ranks of usual size."""

from __future__ import annotations

import tracemalloc

import pytest

from dbg_broker.ranks.memory import EndedRanks, weight
from dbg_wire import limits
from dbg_wire.messages import Register
from dbg_wire.records.ranks import Breakpoint, Place
from tests.unit.broker.peers import RUNNING, registration


def stack(number: int, frames: int = limits.MAX_STACK_FRAMES) -> tuple[Place, ...]:
    return tuple(
        Place(file=f"/{number}/{line}" + "x" * 1000, line=line, function=f"{line}" + "f" * 1000)
        for line in range(frames)
    )


def heavy(number: int) -> Register:
    points = tuple(Breakpoint(file=f"/{number}/{line}" + "x" * 4000, line=1) for line in range(100))
    return registration(number, script=f"/{number}" + "s" * 4000, report=RUNNING.replace(user_breakpoints=points))


def test_weight_is_about_what_memory_says() -> None:
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    said, frames = heavy(1), stack(1)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (after - before) * 0.8 < weight(said, frames) < (after - before) * 1.3


def test_the_oldest_go_by_time_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_ENDED_RANKS", 2)
    ended = EndedRanks()
    for number in range(4):
        ended.put(str(number), "j", 10, float(number))
    assert list(ended.overdue(5.0)) == ["0", "1"]
    assert list(ended.overdue(2.5 + limits.ENDED_RANK_SECONDS)) == ["2"]
    assert (len(ended), ended.sizes.size) == (1, 10)


@pytest.mark.parametrize("size", [10, limits.MAX_ENDED_BYTES // 10])
def test_a_job_with_many_ended_ranks_pushes_off_its_own(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(limits, "MAX_ENDED_RANKS", 4)
    ended = EndedRanks()
    ended.put("crashed", "mine", 2 * size, 0.0)
    for number in range(20):
        ended.put(str(number), "theirs", size, 1.0)
    gone = list(ended.overdue(2.0))
    assert gone == [str(number) for number in range(17)]
    assert ended.sizes.size == 5 * size
    # The jobs that have nothing left are forgotten as well.
    assert list(ended.overdue(1.0 + limits.ENDED_RANK_SECONDS)) == ["crashed", "17", "18", "19"]
    assert (len(ended), ended.sizes.size, len(ended._jobs)) == (0, 0, 0)


def test_the_heaviest_of_the_job_with_most_bytes_go() -> None:
    ended = EndedRanks()
    ended.put("crashed", "mine", limits.MAX_ENDED_BYTES // 4, 0.0)
    for number in range(50):
        ended.put(str(number), "theirs", limits.MAX_ENDED_BYTES // 20 + number, 1.0)
    gone = list(ended.overdue(2.0))
    assert "crashed" not in gone
    assert ended.sizes.size <= limits.MAX_ENDED_BYTES


def test_the_heaviest_go_by_bytes() -> None:
    ended = EndedRanks()
    ended.put("crashed", "j", 10_000, 0.0)
    for number in range(10):
        ended.put(str(number), "j", limits.MAX_ENDED_BYTES // 4 + number, 1.0)
    assert list(ended.overdue(2.0)) == ["9", "8", "7", "6", "5", "4", "3"]
    assert ended.sizes.size <= limits.MAX_ENDED_BYTES
    ended.resize("crashed", limits.MAX_ENDED_BYTES)
    assert list(ended.overdue(2.0)) == ["crashed"]
    ended.resize("crashed", 5)
    ended.drop("crashed")
    assert ended.sizes.size == sum(limits.MAX_ENDED_BYTES // 4 + number for number in range(3))
