"""Checks whether lost ranks have died: soon, then less and less often, without end."""

from __future__ import annotations

from dbg_broker.ranks.liveness import DEATH_CHECK_LATER, DEATH_CHECKS, DeathChecks

KEY = "a"


def test_each_attempt_comes_later_than_the_one_before_and_the_last_delay_stays() -> None:
    checks, now, attempt = DeathChecks(), 100.0, 0
    for delay in (*DEATH_CHECKS, DEATH_CHECK_LATER, DEATH_CHECK_LATER):
        checks.put(KEY, attempt, now)
        assert checks.due(now + delay - 0.01) == []
        now += delay
        [(key, attempt)] = checks.due(now)
        assert key == KEY
    assert attempt == len(DEATH_CHECKS) + 2
    assert checks.due(now + 1e6) == []


def test_those_that_are_due_come_in_their_order() -> None:
    checks = DeathChecks()
    checks.put("late", 1, 0.0)
    checks.put("early", 0, 0.0)
    assert checks.due(DEATH_CHECKS[1]) == [("early", 1), ("late", 2)]
