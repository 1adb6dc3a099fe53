from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from dbg_agent.stragglers import sampling
from dbg_agent.stragglers.sampling import LOOK_SHARE, MOST_OPEN, Places, Sampler, sampled_places
from dbg_wire.messages import Action, Ask, Kind
from dbg_wire.records.samples import MAX_LOOKS, MAX_PLACES, Sampled, SampleQuestion, sampled_in


class Clock:
    """Timers that are run in their order, with the time that passes meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.cpu = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "process_time", lambda: self.cpu)
        monkeypatch.setattr(time, "time_ns", lambda: round(self.now * 1e9))

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self._due.append((self.now + seconds, len(self._due), call))

    def run(self, until: float, *, late: float = 0.0, cpu: float = 0.0) -> None:
        """Run what is due until then; the next timer is late by so many seconds, in which ``cpu`` was used."""
        while True:
            waiting = [one for one in self._due if one[0] <= until]
            if not waiting:
                return
            due = min(waiting)
            self._due.remove(due)
            self.now = max(self.now, due[0] + late)
            self.cpu += cpu
            late = cpu = 0.0
            due[2]()


class Answers:
    """What a sampler has answered."""

    def __init__(self) -> None:
        self.said: list[tuple[int, Kind, str, tuple[object, ...]]] = []

    def __call__(self, ask: Ask, kind: Kind, text: str, rows: tuple[object, ...] = ()) -> None:
        self.said.append((ask.request, kind, text, rows))

    def sampled(self, index: int = 0) -> Sampled:
        """Return what one of the answers tells."""
        told = sampled_in(self.said[index][3])
        assert told is not None
        return told


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the timers, and a place that costs nothing."""
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)
    return Clock(monkeypatch)


def ask(seconds: float, number: int = 1) -> tuple[Ask, SampleQuestion]:
    """Return a question to be sampled."""
    question = SampleQuestion(seconds=seconds)
    asked = Ask(request=number, action=Action.SAMPLE, seconds=seconds + 10, inquiry=question)
    return asked, question


def test_a_rank_is_looked_at_for_as_long_as_was_asked(clock: Clock) -> None:
    answers, sampler = Answers(), Sampler(clock.call_later)
    sampler.begin(*ask(10.0), answers)
    clock.run(109.9)
    assert answers.said == []
    clock.run(200.0)
    told = answers.sampled()
    assert told.sample.seconds == pytest.approx(10.0)
    assert (told.sample.begin, told.sample.clock) == (100_000_000, 110_000_000)
    assert 80 <= told.sample.looks <= 120
    assert sum(len(place.times) for place in told.places) == told.sample.looks


def test_looks_end_with_the_last_question(clock: Clock) -> None:
    answers, sampler = Answers(), Sampler(clock.call_later)
    sampler.begin(*ask(1.0), answers)
    clock.run(200.0)
    assert clock.now < 102.0


def test_questions_share_their_looks(clock: Clock) -> None:
    answers, sampler = Answers(), Sampler(clock.call_later)
    sampler.begin(*ask(4.0, 1), answers)
    clock.run(102.0)
    sampler.begin(*ask(4.0, 2), answers)
    clock.run(200.0)
    first, second = answers.sampled(0), answers.sampled(1)
    assert [number for number, *_ in answers.said] == [1, 2]
    assert abs(first.sample.looks - second.sample.looks) < 8
    assert second.sample.begin - first.sample.begin == pytest.approx(2e6, abs=1e5)


def test_a_long_sampling_has_a_bounded_number_of_looks(clock: Clock) -> None:
    answers, sampler = Answers(), Sampler(clock.call_later)
    sampler.begin(*ask(300.0), answers)
    clock.run(1000.0)
    assert answers.sampled().sample.looks <= MAX_LOOKS


def test_looks_that_take_long_come_seldom(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    spent = iter(range(10**6))
    # Each look takes ten milliseconds.
    monkeypatch.setattr(time, "thread_time", lambda: next(spent) * 0.01)
    answers, sampler = Answers(), Sampler(clock.call_later)
    sampler.begin(*ask(50.0), answers)
    clock.run(1000.0)
    assert 0.01 * answers.sampled().sample.looks <= 1.5 * LOOK_SHARE * 50


def test_a_time_in_which_nothing_ran_is_told(clock: Clock) -> None:
    answers, sampler = Answers(), Sampler(clock.call_later)
    sampler.begin(*ask(10.0), answers)
    clock.run(102.0)
    clock.run(105.0, late=2.0)
    clock.run(200.0)
    assert answers.sampled().sample.still == pytest.approx(2.0)


def test_a_look_that_waits_for_code_that_computes_is_no_standstill(clock: Clock) -> None:
    answers, sampler = Answers(), Sampler(clock.call_later)
    sampler.begin(*ask(10.0), answers)
    clock.run(102.0)
    clock.run(105.0, late=2.0, cpu=2.0)
    clock.run(200.0)
    assert answers.sampled().sample.still == 0.0


def test_too_many_questions_are_refused(clock: Clock) -> None:
    answers, sampler = Answers(), Sampler(clock.call_later)
    for number in range(MOST_OPEN + 1):
        sampler.begin(*ask(5.0, number), answers)
    ((number, kind, text, _),) = answers.said
    assert (number, kind, text) == (MOST_OPEN, Kind.ERROR, f"{MOST_OPEN} samplings of it are open already")


def test_recorders_are_read_again_only_after_a_hundred_times_what_that_took(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = []

    def slowly(*_: object) -> list[object]:
        readings.append(clock.now)
        clock.now += 0.05
        return []

    monkeypatch.setattr(sampling, "arrivals_of", slowly)
    answers, sampler = Answers(), Sampler(clock.call_later)
    for number in range(8):
        sampler.begin(*ask(1.0 + number, number), answers)
    clock.run(200.0)
    assert len(answers.said) == 8
    assert len(readings) == 2
    assert readings[1] - readings[0] >= 5.0


def test_what_goes_wrong_is_an_answer(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> list[object]:
        raise ZeroDivisionError

    monkeypatch.setattr(sampling, "arrivals_of", broken)
    answers, sampler = Answers(), Sampler(clock.call_later)
    sampler.begin(*ask(1.0), answers)
    clock.run(200.0)
    assert answers.said == [(1, Kind.ERROR, "it can't be sampled (ZeroDivisionError)", ())]


def test_places_that_were_seen_seldom_are_one(clock: Clock) -> None:
    places = [(((f"/{number}.py", 1, "f"),), ("", "")) for number in range(MAX_PLACES + 8)]
    looks = [(at, place) for at, place in enumerate([*places, *places[: MAX_PLACES - 1]])]
    rows = sampled_places(looks, 0)
    assert len(rows) == MAX_PLACES
    assert sum(len(row.times) for row in rows) == len(looks)
    assert [len(row.times) for row in rows if not row.frames] == [9]


def test_the_main_thread_is_where_this_test_is() -> None:
    steps, call = Places().look()
    assert any(function == "test_the_main_thread_is_where_this_test_is" for _, _, function in steps)
    assert call == ("", "")
