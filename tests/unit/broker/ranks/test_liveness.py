"""Checks whether lost ranks have died: soon, then less and less often, without end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.ranks.liveness import (
    DEATH_CHECK_LATER,
    DEATH_CHECKS,
    DeathChecks,
    Due,
    ProbeIntervals,
    ProbeSchedule,
)
from dbg_wire import limits

KEY = "a"


def test_delays_between_checks_grow_up_to_the_last() -> None:
    checks, now, attempt = DeathChecks(), 100.0, 0
    for delay in (*DEATH_CHECKS, DEATH_CHECK_LATER, DEATH_CHECK_LATER):
        checks.put(KEY, attempt, now)
        assert checks.due(now + delay - 0.01) == []
        now += delay
        [(key, attempt)] = checks.due(now)
        assert key == KEY
    assert attempt == len(DEATH_CHECKS) + 2
    assert checks.due(now + 1e6) == []


EVERY = ProbeIntervals(attended=2.0, idle=20.0)


def schedule(*keys: str) -> ProbeSchedule:
    probes = ProbeSchedule(EVERY)
    for key in keys:
        probes.add(key, 0.0)
    return probes


def test_idle_rank_is_probed_every_twenty_seconds() -> None:
    probes = schedule("a")
    assert probes.due(19.9) == Due([], [])
    assert probes.due(20.0) == Due(["a"], [])
    probes.heard("a", 20.1)
    assert probes.due(39.9) == Due([], [])
    assert probes.due(40.0) == Due(["a"], [])


def test_attended_rank_is_probed_at_once_and_every_two_seconds() -> None:
    probes = schedule("a")
    probes.attend("a", True, 5.0)
    assert probes.due(5.0) == Due(["a"], [])
    probes.heard("a", 5.1)
    assert probes.due(6.9) == Due([], [])
    assert probes.due(7.0) == Due(["a"], [])
    probes.heard("a", 7.1)
    probes.attend("a", False, 7.5)
    assert probes.due(9.0) == Due(["a"], [])
    assert probes.due(28.9) == Due([], [])


def test_a_question_that_is_answered_leads_to_no_probe() -> None:
    probes = schedule("a")
    for at in (5.0, 6.0):
        probes.asked("a", at)
        assert probes.due(at) == Due([], [])
        probes.heard("a", at + 0.1)
        probes.ask_ended("a")
    assert probes.due(19.9) == Due([], [])
    assert probes.due(20.0) == Due(["a"], [])


def test_rank_is_silent_after_two_unanswered_probes_and_not_probed_again() -> None:
    probes = schedule("a")
    probes.attend("a", True, 0.0)
    assert [probes.due(when) for when in (0.0, 2.0)] == [Due(["a"], []), Due(["a"], [])]
    assert probes.due(4.0) == Due([], ["a"])
    assert probes.due(1000.0) == Due([], [])
    probes.attend("a", False, 1001.0)
    probes.attend("a", True, 1002.0)
    assert probes.due(1003.0) == Due([], [])


def test_broker_that_was_suspended_marks_no_rank_silent() -> None:
    probes = schedule("a")
    assert probes.due(10_000.0) == Due(["a"], [])
    assert probes.due(10_000.1) == Due([], [])


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["sweep", "hear", "look", "leave", "ask", "end"])), max_size=80
    )
)
def test_rank_is_silent_only_after_two_probes_since_its_last_message(events: list[tuple[int, str]]) -> None:
    probes = schedule("a")
    unanswered, asked, silent, now = 0, 0, False, 0.0
    for seconds, event in events:
        now += seconds
        if event == "hear":
            probes.heard("a", now)
            unanswered, asked, silent = 0, 0, False
        elif event == "sweep":
            due = probes.due(now)
            unanswered += len(due.probe)
            assert not (silent and due.probe)
            if due.silent:
                assert not silent
                assert unanswered + asked >= limits.SILENT_PROBES
                silent = True
        elif event == "ask":
            probes.asked("a", now)
            asked = 1
        elif event == "end":
            probes.ask_ended("a")
        else:
            probes.attend("a", event == "look", now)
        assert unanswered <= limits.SILENT_PROBES
