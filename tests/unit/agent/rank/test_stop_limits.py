"""A stop ends by its own lease, or when nobody has typed for as long as the broker allows, on the rank's own clock."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dbg_agent.rank import stop_limits
from dbg_agent.rank.stop_limits import Deadline, Lease, StopLimits, first_deadline
from dbg_agent.stop.inbox import Inbox, ResumeThread
from dbg_agent.stop.stops import HELD, Stops
from dbg_agent.torch import group_timeouts
from dbg_agent.torch.group_timeouts import MODULE, GroupTimeouts
from dbg_wire.messages import Message, StopInfo, Viewers
from dbg_wire.records.ranks import Limit, LimitKind
from tests.conftest import Approved
from tests.support.approved import as_text
from tests.support.fake_groups import FakeBackend, FakeC10d, FakeStore

HOURS = 8 * 3600.0


class Rig:
    """A rank's stops and lease without a link, on a clock that a test moves on."""

    address = "h:0"

    def __init__(self) -> None:
        self.now = 1000.0
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.published: list[StopInfo] = []
        self.sent: list[Message] = []
        self.stops, self.inbox = Stops(lambda: None), Inbox()
        self.ended: list[int] = []
        self.inbox.put = self._put  # type: ignore[method-assign,assignment]
        self.lease = Lease(cast("Any", self), self.stops, self.inbox, lambda: self.now)
        self.limits = SimpleNamespace(lease=self.lease)

    def _put(self, number: int, work: object) -> None:
        assert isinstance(work, ResumeThread)
        self.ended.append(number)
        self.stops.end()
        work.done()

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self.later.append((self.now + seconds, call))

    def publish(self) -> None:
        stop = self.stops.report(breakpoints=0, generation=0, applied=0).stop
        assert stop is not None
        self.published.append(stop)

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def stop(self, seconds: float | None = None, reason: str = "breakpoint") -> None:
        self.stops.arrive(sys._getframe(), reason)
        self.lease.start(seconds)

    def drive(self, generation: int, *, driven: bool = True) -> None:
        self.lease.note_viewers(Viewers(viewers=1, generation=generation, rows=24, columns=80, colors=8, driven=driven))

    def pass_by(self, seconds: float) -> None:
        """Move the clock on, and call all that is due on the way when it is due."""
        end = self.now + seconds
        while due := min((one for one in self.later if one[0] <= end), key=lambda one: one[0], default=None):
            self.later.remove(due)
            self.now = max(self.now, due[0])
            due[1]()
        self.now = end

    @property
    def is_over(self) -> bool:
        return bool(self.ended)

    def lasts(self, seconds: float) -> bool:
        """Let so much time pass; return whether the stop lasts as long, and no longer."""
        self.pass_by(seconds - 1)
        ends_early = self.is_over
        self.pass_by(1)
        return self.is_over and not ends_early


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_stop_without_a_lease_does_not_end(rig: Rig) -> None:
    rig.stop()
    rig.pass_by(HOURS * 1000)
    assert not rig.is_over
    assert rig.later == []


def test_its_own_lease_ends_a_stop_and_is_reported_once(
    approved: Approved, rig: Rig, capfd: pytest.CaptureFixture[str]
) -> None:
    rig.stop(600)
    assert rig.lasts(600)
    assert rig.ended == [1]
    approved(capfd.readouterr().err)
    approved(as_text(rig.sent), "2")


def test_the_first_driver_cancels_the_stops_own_lease(rig: Rig) -> None:
    rig.stop(600)
    rig.drive(1)
    rig.drive(1, driven=False)
    rig.pass_by(HOURS)
    assert not rig.is_over


@pytest.mark.parametrize("leaves", [True, False])
def test_the_brokers_lease_ends_a_stop_whose_driver_left_or_is_idle(
    approved: Approved, rig: Rig, leaves: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    rig.lease.allow(HOURS)
    rig.stop(600)
    rig.drive(1)
    for _ in range(20):
        rig.pass_by(HOURS - 1)
        rig.lease.use()
    assert not rig.is_over
    if leaves:
        rig.drive(1, driven=False)
    assert rig.lasts(HOURS)
    approved(capfd.readouterr().err)


@pytest.mark.parametrize("own", [HOURS, None], ids=["the stop's own", "the broker's"])
def test_terminals_that_only_watch_do_not_extend_the_lease(rig: Rig, own: float | None) -> None:
    rig.lease.allow(None if own else HOURS)
    rig.stop(own)
    for _ in range(8):
        rig.pass_by(HOURS / 8)
        rig.drive(0, driven=False)
    assert rig.is_over


@pytest.mark.parametrize(("own", "after"), [(600.0, 600.0), (HOURS * 2, HOURS), (None, HOURS)])
def test_the_shorter_lease_ends_a_stop_without_a_driver(rig: Rig, own: float | None, after: float) -> None:
    rig.lease.allow(HOURS)
    rig.stop(own)
    assert rig.lasts(after)


def test_a_lease_holds_without_a_broker_until_another_broker_changes_it(rig: Rig) -> None:
    rig.lease.allow(HOURS)
    rig.stop()
    rig.lease.left()
    rig.pass_by(HOURS - 1)
    rig.lease.allow(None)
    rig.pass_by(HOURS)
    assert not rig.is_over
    rig.lease.allow(60.0)
    assert rig.lasts(60.0)


def test_a_long_step_is_not_idle_and_starts_the_lease_again(rig: Rig) -> None:
    rig.lease.allow(HOURS)
    rig.stop()
    rig.stops.open_session("pdb", 24, 80)
    rig.stops.step()
    rig.pass_by(HOURS * 3)
    rig.stops.halt(sys._getframe())
    rig.lease.use()
    assert rig.lasts(HOURS)


def test_a_held_rank_has_no_lease_until_a_user_opens_it(rig: Rig) -> None:
    rig.lease.allow(HOURS)
    rig.stop(reason=HELD)
    rig.pass_by(HOURS * 10)
    assert not rig.is_over
    rig.stops.open_session("pdb", 24, 80)
    rig.pass_by(HOURS * 2)
    assert rig.is_over


def test_a_held_rank_without_a_broker_has_the_lease_of_the_ranks_it_waits_for(
    approved: Approved, rig: Rig, capfd: pytest.CaptureFixture[str]
) -> None:
    rig.lease.allow(HOURS)
    rig.stop(reason=HELD)
    rig.pass_by(HOURS * 2)
    rig.lease.left()
    rig.pass_by(HOURS / 2)
    rig.lease.left()
    rig.lease.allow(HOURS)
    rig.pass_by(HOURS * 2)
    assert not rig.is_over
    rig.lease.left()
    assert rig.lasts(HOURS)
    approved(capfd.readouterr().err)


def test_the_rest_of_a_lease_is_reported_before_it_ends(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbg_agent.stop.stops.time.monotonic", lambda: rig.now)
    rig.lease.allow(HOURS)
    rig.stop()
    rig.pass_by(HOURS - 301)
    assert rig.published == []
    rig.pass_by(1)
    (soon,) = rig.published
    assert (soon.lease, soon.lease_seconds) == (HOURS, 300.0)


WALL = 1_760_000_000.0


@pytest.fixture
def c10d(monkeypatch: pytest.MonkeyPatch) -> FakeC10d:
    """Return what stands for torch's module, as loaded."""
    module = FakeC10d()
    monkeypatch.setitem(sys.modules, MODULE, module)
    return module


class DeadlinesRig:
    """A rank's stops and deadlines without a link: what is to be called later is kept."""

    def __init__(self) -> None:
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.stops = Stops(lambda: None)
        self.limits = StopLimits(cast("Any", self), self.stops, Inbox())

    def warn(self, text: str) -> None:
        pytest.fail(text)

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self.later.append((seconds, call))

    def stop(self, reason: str = "breakpoint") -> Limit | None:
        self.stops.arrive(sys._getframe(), reason)
        return self.limits.start(reason, None)

    def go_on(self) -> None:
        self.limits.end()
        self.stops.end()

    @property
    def limit(self) -> Limit | None:
        stop = self.stops.report(breakpoints=0, generation=0, applied=0).stop
        assert stop is not None
        return stop.limit

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


def test_the_earliest_deadline_of_groups_and_job_is_named(c10d: FakeC10d) -> None:
    assert first_deadline({}, 0.0, WALL) is None
    ends = {"SLURM_JOB_END_TIME": str(int(WALL) + 1700)}
    job = first_deadline(ends, 0.0, WALL)
    assert job == Deadline(LimitKind.JOB, 1700)
    c10d.create("0", 1800)
    later = first_deadline({}, 0.0, WALL)
    assert later == Deadline(LimitKind.COLLECTIVES, 1800, "gloo")
    assert first_deadline(ends, 0.0, WALL) == job
    c10d.create("1", 600)
    sooner = first_deadline(ends, 0.0, WALL)
    assert sooner is not None
    assert sooner.at == 600


@pytest.mark.parametrize("end", ["", "soon", "-5", str(int(WALL) - 1), "nan"])
def test_an_invalid_end_of_the_job_is_no_deadline(end: str) -> None:
    assert first_deadline({"SLURM_JOB_END_TIME": end}, 0.0, WALL) is None


def test_the_time_left_is_reported_until_the_deadline(c10d: FakeC10d, now: SimpleNamespace) -> None:
    rig = DeadlinesRig()
    c10d.create("0", 150)
    assert rig.stop() == rig.limit == Limit(kind=LimitKind.COLLECTIVES, seconds=150.0, name="gloo")
    left = []
    while rig.later:
        now.monotonic += rig.later[0][0]
        rig.pass_time()
        assert rig.limit is not None
        left.append(rig.limit.seconds)
    assert left == [90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 20.0, 10.0, 0.0]


def test_the_limit_of_a_launcher_precedes_other_limits_of_a_kept_rank(c10d: FakeC10d, now: SimpleNamespace) -> None:
    rig = DeadlinesRig()
    c10d.create("0", 600)
    rig.stop("crash")
    rig.limits.terminated("torchrun", 30.0)
    assert rig.limit == Limit(kind=LimitKind.LAUNCHER, seconds=30.0, name="torchrun")


def test_neither_an_ended_stop_nor_a_held_rank_has_a_deadline(c10d: FakeC10d) -> None:
    rig = DeadlinesRig()
    c10d.create("0", 600)
    rig.stop()
    rig.go_on()
    assert rig.stop(HELD) is rig.limit is None
    rig.go_on()
    c10d.destroy()
    rig.stop()
    while rig.later:
        rig.pass_time()
    assert rig.limit is None


class TestGroups:
    """Groups have the collective timeout during each stop, and their own again some time after the last stop."""

    @pytest.fixture
    def timeouts(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[GroupTimeouts]:
        made = GroupTimeouts()
        monkeypatch.setattr(group_timeouts, "timeouts", made)
        yield made
        made.uninstall()

    @pytest.fixture
    def backend(self, c10d: FakeC10d, timeouts: GroupTimeouts) -> FakeBackend:
        timeouts.install(60)
        return c10d.create("0", 5, FakeStore(timedelta(seconds=5)))

    def test_group_timeouts_are_restored_after_the_last_stop_and_raised_at_the_next(self, backend: FakeBackend) -> None:
        rig = DeadlinesRig()
        rig.stop()
        rig.later.clear()
        rig.go_on()
        assert backend.seconds == 60
        assert rig.pass_time() == 60
        assert backend.seconds == 5
        rig.stop()
        assert backend.seconds == 60

    def test_the_group_timeout_is_kept_until_the_last_of_several_stops(self, backend: FakeBackend) -> None:
        rig = DeadlinesRig()
        rig.stop(HELD)
        rig.go_on()
        rig.stop(HELD)
        rig.pass_time()
        assert backend.seconds == 60
        rig.go_on()
        rig.pass_time()
        assert backend.seconds == 5
