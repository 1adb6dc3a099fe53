"""Checks whether lost ranks have died: soon, then less and less often, without end."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.ranks import memory
from dbg_broker.ranks.liveness import (
    DEATH_CHECK_LATER,
    DEATH_CHECKS,
    DeathChecks,
    Due,
    HostLooks,
    ProbeIntervals,
    ProbeSchedule,
)
from dbg_broker.ranks.memory import MEMORY_OF_TEXT, LiveBytes, weight
from dbg_wire import limits
from dbg_wire.codec import decode, encode
from dbg_wire.limits import SILENT_SECONDS
from dbg_wire.messages import Answer, Kind, Sender
from dbg_wire.messages.declared import AnyRow
from dbg_wire.records.beside import OperationCount, RasRank
from dbg_wire.records.inspection import Part

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


ROUND = 1.0


def crowd(hosts: int, ranks: int) -> HostLooks:
    """Return the looks at some hosts with so many ranks each, which were heard at 0."""
    looks = HostLooks()
    for host in range(hosts):
        for rank in range(ranks):
            looks.add(f"{host}/{rank}", host, 0.0)
    return looks


def round_at(looks: HostLooks, now: float, unheard: dict[str, float] | None = None) -> list[str]:
    """Look at what is due, where hosts were last heard so long ago (now, by default); return who was looked at."""
    seen = []
    for key in looks.due(now):
        seen.append(key)
        looks.seen(key, (unheard or {}).get(key, 0.0), now)
    return seen


def test_hosts_that_answer_are_looked_at_once_for_all_their_ranks_and_not_before_they_may_be_silent() -> None:
    looks = crowd(hosts=5, ranks=8)
    rounds = [round_at(looks, now * ROUND) for now in range(61)]
    assert sum(map(len, rounds)) <= 5 * 60 / SILENT_SECONDS
    assert not any(rounds[: int(SILENT_SECONDS)])


def test_ranks_of_a_host_take_turns() -> None:
    looks = crowd(hosts=1, ranks=3)
    seen = [key for now in range(0, 60, 5) for key in round_at(looks, float(now))]
    assert seen[:6] == ["0/0", "0/1", "0/2"] * 2


def test_what_was_heard_long_ago_is_looked_at_again_as_soon_as_it_may_be_silent() -> None:
    looks = crowd(hosts=1, ranks=1)
    assert round_at(looks, 5.0, {"0/0": 4.0}) == ["0/0"]
    assert round_at(looks, 5.4) == []
    assert round_at(looks, 5.5) == ["0/0"]


def test_all_ranks_of_a_host_are_looked_at_as_soon_as_one_of_them_is_silent_and_until_all_are_back() -> None:
    looks = crowd(hosts=2, ranks=4)
    silent = {f"0/{rank}": 5.0 for rank in range(4)}
    assert set(round_at(looks, 5.0, silent)) == {*silent, "1/0"}
    assert set(round_at(looks, 6.0, silent)) == set(silent)
    assert set(round_at(looks, 7.0, {"0/2": 7.0})) == set(silent)
    assert set(round_at(looks, 8.0)) == set(silent)
    assert round_at(looks, 9.0) == []


def test_begin_and_end_of_a_silence_are_news_once() -> None:
    looks = crowd(hosts=1, ranks=1)
    told = [looks.seen("0/0", unheard, 9.0) for unheard in (0.0, SILENT_SECONDS, 6.0, 0.1, 0.1)]
    assert told == [False, True, False, True, False]


def test_rank_that_left_or_moved_to_another_host_is_not_looked_at_there() -> None:
    looks = crowd(hosts=1, ranks=2)
    looks.seen("0/0", 9.0, 1.0)
    looks.remove("0/0")
    looks.remove("0/0")
    assert not looks.seen("0/0", 9.0, 2.0)
    looks.add("0/1", "another", 2.0)
    assert round_at(looks, 2.5) == []
    assert round_at(looks, 20.0) == ["0/1"]
    looks.remove("0/1")
    assert round_at(looks, 40.0) == []


def test_host_whose_ranks_leave_during_a_round_is_passed_over() -> None:
    looks = crowd(hosts=3, ranks=1)
    due = looks.due(10.0)
    assert next(due) == "0/0"
    looks.remove("1/0")
    assert list(due) == ["2/0"]


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


COUNTED = RasRank(communicator="", rank=0, state="", counts=(OperationCount(name="ab", count=1000),) * 64)


@pytest.mark.parametrize(
    "rows",
    [
        (COUNTED,) * 300,
        (Part(step="", label="", digest=""),) * 4096,
        (Part(step="12", label="ab", digest="cd"),) * 4096,
    ],
)
def test_rows_take_no_more_memory_than_they_weigh(rows: tuple[AnyRow, ...]) -> None:
    text = encode(Answer(request=1, kind=Kind.VALUE, text="", rows=rows))
    decode(text, Sender.AGENT)
    tracemalloc.start()
    try:
        answer = decode(text, Sender.AGENT)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(answer, Answer)
    assert taken <= weight(answer) < 20 * len(text)


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


def test_a_question_without_an_answer_counts_as_a_probe() -> None:
    probes = schedule("a")
    probes.asked("a", 5.0)
    assert probes.due(6.9) == Due([], [])
    assert probes.due(7.0) == Due(["a"], [])
    assert probes.due(8.9) == Due([], [])
    assert probes.due(9.0) == Due([], ["a"])


def test_questions_that_end_without_an_answer_put_off_no_probe_that_is_due() -> None:
    probes = schedule("a")
    probed: list[float] = []
    for tick in range(240):
        probes.asked("a", tick / 10)
        if probes.due(tick / 10).probe:
            probed.append(tick / 10)
        probes.ask_ended("a")
        probes.asked("a", tick / 10)
    assert [20.0 <= when <= 22.0 for when in probed] == [True]


def test_questions_leave_few_entries_behind() -> None:
    probes = schedule("a")
    for _ in range(1000):
        probes.asked("a", 5.0)
        probes.ask_ended("a")
    assert len(probes) <= 2


def test_rank_is_silent_after_two_unanswered_probes_and_then_left_alone() -> None:
    probes = schedule("a")
    probes.attend("a", True, 0.0)
    assert [probes.due(when) for when in (0.0, 2.0)] == [Due(["a"], []), Due(["a"], [])]
    assert probes.due(4.0) == Due([], ["a"])
    assert probes.due(1000.0) == Due([], [])
    probes.attend("a", False, 1001.0)
    probes.attend("a", True, 1002.0)
    assert probes.due(1003.0) == Due([], [])


def test_any_word_ends_the_silence() -> None:
    probes = schedule("a")
    probes.attend("a", True, 0.0)
    for when in (0.0, 2.0, 4.0):
        probes.due(when)
    probes.heard("a", 50.0)
    assert probes.due(51.9) == Due([], [])
    assert probes.due(52.0) == Due(["a"], [])
    assert probes.due(54.0) == Due(["a"], [])
    assert probes.due(56.0) == Due([], ["a"])


def test_rank_that_left_is_not_probed() -> None:
    probes = schedule("a", "b")
    probes.remove("a")
    probes.remove("a")
    assert probes.due(100.0) == Due(["b"], [])
    probes.heard("a", 100.0)
    probes.attend("a", True, 100.0)
    assert probes.due(100.0) == Due([], [])


def test_rank_that_registers_again_begins_anew() -> None:
    probes = schedule("a")
    probes.due(20.0)
    probes.due(40.0)
    probes.add("a", 50.0)
    assert probes.due(69.9) == Due([], [])
    assert probes.due(70.0) == Due(["a"], [])


def test_broker_that_slept_does_not_call_everyone_silent() -> None:
    probes = schedule("a")
    assert probes.due(10_000.0) == Due(["a"], [])
    assert probes.due(10_000.1) == Due([], [])


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["sweep", "hear", "look", "leave", "ask", "end"])), max_size=80
    )
)
def test_no_rank_is_silent_without_two_probes_since_its_last_word(events: list[tuple[int, str]]) -> None:
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
