"""A stop names the first deadline and the time left until it, and process groups get their timeouts back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.rank import stop_limits
from dbg_agent.rank.group_timeouts import MODULE, GroupTimeouts
from dbg_agent.rank.stop_limits import Deadline, Deadlines, first_deadline
from dbg_agent.stop.stops import HELD, Stops
from tests.support.fake_groups import FakeBackend, FakeC10d, FakeStore

WALL = 1_760_000_000.0


@pytest.fixture
def c10d(monkeypatch: pytest.MonkeyPatch) -> FakeC10d:
    """Return what stands for torch's module, as loaded."""
    module = FakeC10d()
    monkeypatch.setitem(sys.modules, MODULE, module)
    return module


class Rig:
    """A rank's stops and deadlines without a link: what is to be called later is kept."""

    def __init__(self) -> None:
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.stops = Stops(lambda: None)
        self.deadlines = Deadlines(cast("Any", self), lambda: None)

    def warn(self, text: str) -> None:
        pytest.fail(text)

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self.later.append((seconds, call))

    def stop(self, reason: str = "breakpoint", detail: str = "") -> str:
        self.stops.arrive(sys._getframe(), reason, detail)
        return self.deadlines.begin(reason, detail)

    def go_on(self) -> None:
        self.deadlines.end()
        self.stops.end()

    @property
    def detail(self) -> str:
        stop = self.stops.report(breakpoints=0, generation=0, applied=0).stop
        return stop.detail if stop is not None else "-"

    def pass_time(self) -> float:
        """Call what was to be called first, and return after how many seconds."""
        seconds, call = self.later.pop(0)
        call()
        return seconds


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return a clock that stands still unless it is set."""
    hand = SimpleNamespace(monotonic=1000.0)
    stands = SimpleNamespace(monotonic=lambda: hand.monotonic, time=lambda: WALL)
    monkeypatch.setattr(stop_limits, "time", stands)
    return hand


def test_the_first_of_groups_and_job_is_named(c10d: FakeC10d) -> None:
    assert first_deadline({}, 0.0, WALL) is None
    ends = {"SLURM_JOB_END_TIME": str(int(WALL) + 1700)}
    job = first_deadline(ends, 0.0, WALL)
    assert job is not None
    assert job.text(0.0) == "SLURM ends the job in 28 min"
    c10d.create("0", 1800)
    later = first_deadline({}, 0.0, WALL)
    assert later is not None
    assert later.text(0.0) == "gloo collectives that wait for it time out in 30 min"
    assert first_deadline(ends, 0.0, WALL) == job
    c10d.create("1", 600)
    sooner = first_deadline(ends, 0.0, WALL)
    assert sooner is not None
    assert sooner.at == 600


@pytest.mark.parametrize("end", ["", "soon", "-5", str(int(WALL) - 1), "nan"])
def test_an_end_of_the_job_that_is_none_is_no_clock(end: str) -> None:
    assert first_deadline({"SLURM_JOB_END_TIME": end}, 0.0, WALL) is None


def test_a_torch_that_looks_otherwise_is_no_clock(c10d: FakeC10d) -> None:
    c10d._world.pg_map["not a group"] = None
    assert first_deadline({}, 0.0, WALL) is None


@given(st.floats(0, 1e7), st.floats(0, 1e7))
def test_what_is_left_is_told_within_half_a_unit(at: float, now: float) -> None:
    text = Deadline("it rings", "it rang", at).text(now)
    left = at - now
    if left <= 0:
        assert text == "it rang"
    else:
        amount, unit = text.removeprefix("it rings in ").split()
        size = {"min": 60.0, "s": 1.0}[unit]
        assert abs(float(amount) * size - left) <= size / 2 + 1e-6
        assert (unit == "min") == (left >= stop_limits.SOON_SECONDS)


def test_the_list_names_what_is_left_until_it_has_rung(c10d: FakeC10d, now: SimpleNamespace) -> None:
    rig = Rig()
    c10d.create("0", 150)
    assert rig.stop() == rig.detail == "gloo collectives that wait for it time out in 2 min"
    told = []
    while rig.later:
        now.monotonic += rig.later[0][0]
        rig.pass_time()
        told.append(rig.detail.removeprefix("gloo collectives that wait for it "))
    assert told == [f"time out in {left} s" for left in range(90, 0, -10)] + ["have timed out"]


def test_a_crash_keeps_its_exception_and_what_is_said_later_stays(c10d: FakeC10d) -> None:
    rig = Rig()
    c10d.create("0", 600)
    rig.stop("crash", "ValueError: bad loss")
    assert rig.detail == "ValueError: bad loss; gloo collectives that wait for it time out in 10 min"
    stop = rig.stops.report(breakpoints=0, generation=0, applied=0).stop
    assert stop is not None
    assert stop.limit == "gloo collectives that wait for it time out in 10 min"
    assert stop.limit_seconds == pytest.approx(600.0, abs=1.0)
    rig.stops.note("got SIGTERM")
    rig.pass_time()
    assert rig.detail == "got SIGTERM"
    stop = rig.stops.report(breakpoints=0, generation=0, applied=0).stop
    assert stop is not None
    assert (stop.limit, stop.limit_seconds) == ("", None)
    assert rig.later == []


def test_a_stop_that_is_over_is_told_no_more(c10d: FakeC10d) -> None:
    rig = Rig()
    c10d.create("0", 600)
    rig.stop()
    rig.go_on()
    c10d.destroy()
    rig.stop()
    rig.pass_time()
    assert (rig.detail, rig.later) == ("", [])


def test_a_held_rank_names_no_clock(c10d: FakeC10d) -> None:
    rig = Rig()
    c10d.create("0", 600)
    assert rig.stop(HELD) == rig.detail == ""


class TestGroups:
    """Groups have the collective timeout during each stop, and their own again some time after the last stop."""

    @pytest.fixture
    def timeouts(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[GroupTimeouts]:
        made = GroupTimeouts()
        monkeypatch.setattr(stop_limits, "timeouts", made)
        yield made
        made.uninstall()

    @pytest.fixture
    def backend(self, c10d: FakeC10d, timeouts: GroupTimeouts) -> FakeBackend:
        timeouts.install(60)
        return c10d.create("0", 5, FakeStore(timedelta(seconds=5)))

    def test_the_last_stop_gives_it_back_and_the_next_takes_it_again(self, backend: FakeBackend) -> None:
        rig = Rig()
        rig.stop()
        rig.later.clear()
        rig.go_on()
        assert backend.seconds == 60
        assert rig.pass_time() == 60
        assert backend.seconds == 5
        rig.stop()
        assert backend.seconds == 60

    def test_a_stop_that_another_follows_was_not_the_last(self, backend: FakeBackend) -> None:
        rig = Rig()
        rig.stop(HELD)
        rig.go_on()
        rig.stop(HELD)
        rig.pass_time()
        assert backend.seconds == 60
        rig.go_on()
        rig.pass_time()
        assert backend.seconds == 5

    def test_without_one_nothing_is_given_back(self, timeouts: GroupTimeouts, backend: FakeBackend) -> None:
        timeouts.uninstall()
        rig = Rig()
        rig.stop(HELD)
        rig.go_on()
        assert (rig.later, backend.seconds) == ([], 5)
