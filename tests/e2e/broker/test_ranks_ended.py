"""Ended ranks stay listed within a bound in bytes; a rank of unusual size goes before ranks of usual size."""

from __future__ import annotations

import tracemalloc

from dbg_broker.ranks.registry import Registry
from dbg_wire import limits
from tests.unit.broker.peers import registration
from tests.unit.broker.ranks.test_ended import heavy, stack


def test_ranks_with_endless_texts_push_out_one_another_and_no_crashed_one() -> None:
    registry = Registry()
    crashed = registry.register(registration(99_999, pid=99_999), 0.0).rank
    registry.goodbye(crashed, 1, 0.0)
    registry.last_words(crashed, stack(0, 30), "ValueError: no")
    tracemalloc.start()
    for number in range(120):
        rank = registry.register(heavy(number), 1.0).rank
        registry.goodbye(rank, 0, 1.0)
        registry.last_words(rank, stack(number), "")
        registry.expire(1.0)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 1.2 * limits.MAX_ENDED_BYTES
    assert registry.find(crashed.key) is crashed
    assert len(registry.keys()) > 30
