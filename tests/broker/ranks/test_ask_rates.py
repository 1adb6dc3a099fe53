"""A rank is asked so often and no more often."""

from __future__ import annotations

from dbg_broker.ranks.ask_rates import ASKS_PER_SECOND, MAX_OPEN_AT_RANK, AskRates


def test_a_rank_is_asked_as_often_as_it_goes_and_again_a_moment_later() -> None:
    rates = AskRates()
    assert [rates.refusal("a", 1, 0.0) for _ in range(ASKS_PER_SECOND)] == [None] * ASKS_PER_SECOND
    assert "in a second; ask again" in (rates.refusal("a", 1, 0.0) or "")
    assert rates.refusal("b", 1, 0.0) is None
    assert rates.refusal("a", 1, 2 / ASKS_PER_SECOND) is None


def test_questions_that_wait_are_bounded_too() -> None:
    rates = AskRates()
    assert rates.refusal("a", MAX_OPEN_AT_RANK, 0.0) is None
    assert "wait for this rank already" in (rates.refusal("a", MAX_OPEN_AT_RANK + 1, 0.0) or "")


def test_nothing_stays_of_a_rank_that_has_left() -> None:
    rates = AskRates()
    rates.refusal("a", 1, 0.0)
    rates.forget("a")
    rates.forget("a")
    assert len(rates) == 0
