"""What ranks have said is bounded in memory, and the heaviest goes first."""

from __future__ import annotations

import pytest

from dbg_broker.ranks import memory
from dbg_broker.ranks.memory import MEMORY_OF_TEXT, LiveBytes


def test_a_message_replaces_the_one_before_and_all_is_forgotten_with_its_rank() -> None:
    live = LiveBytes()
    live.note("a", "report", 100)
    live.note("a", "report", 30)
    live.note("a", "pulse", 10)
    live.note("b", "report", 1)
    assert live.size == 41 * MEMORY_OF_TEXT
    live.drop("a")
    live.drop("a")
    assert live.size == MEMORY_OF_TEXT


def test_the_heaviest_goes_if_all_together_are_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_LIVE_BYTES", 100 * MEMORY_OF_TEXT)
    live = LiveBytes()
    for number in range(50):
        live.note(f"small {number}", "report", 1)
    live.note("heavy", "report", 50)
    assert live.heaviest() is None
    live.note("small 1", "pulse", 1)
    assert live.heaviest() == "heavy"
    live.drop("heavy")
    assert live.heaviest() is None


def test_one_rank_is_too_much_by_what_it_said_last() -> None:
    live, most = LiveBytes(), memory.MAX_RANK_BYTES // MEMORY_OF_TEXT
    live.note("a", "report", most - 1)
    live.note("a", "pulse", 1)
    live.note("b", "report", 1)
    assert [live.is_too_much(key) for key in ("a", "b", "unknown")] == [False, False, False]
    live.note("b", "report", most + 1)
    assert [live.is_too_much(key) for key in ("a", "b")] == [False, True]
    live.note("b", "report", 1)
    assert not live.is_too_much("b")
