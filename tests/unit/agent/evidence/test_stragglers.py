"""How late a rank is, and why: arrivals at collectives, counters of the kernel, and where its main thread is seen."""

from __future__ import annotations

import json
import sysconfig
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dbg_agent.evidence import sampling
from dbg_agent.evidence.sampling import LOOK_SHARE, MOST_OPEN, Places, Sampler, arrivals_of, sampled_places
from dbg_agent.host.process import Kernel, processors
from dbg_agent.torch.flight_recorder import Recorder
from dbg_wire.messages import Action, Ask, Kind
from dbg_wire.records.evidence import GroupSeen, SourceSeen
from dbg_wire.records.samples import (
    MAX_FRAMES,
    MAX_PLACES,
    MAX_SNAPSHOTS,
    GroupArrivals,
    Sampled,
    SampleQuestion,
    sampled_in,
)
from tests.conftest import Approved
from tests.support.approved import as_text
from tests.support.recorded import dump, pickled, raw
from tests.unit.agent.torch.fake_torch import FakeTorch

MICROSECOND = 1000


def entry(number: int, at: int, **more: Any) -> dict[str, Any]:
    """Return an entry of gloo that has ended, called at so many microseconds."""
    return raw(number, "gloo:all_reduce", retired=True, time_created_ns=at * MICROSECOND, **more)


def recorder(content: bytes, *, enqueued: int = 5, completed: int = 5, pg: str = "0") -> Recorder:
    """Return a recorder of gloo with this dump."""
    status = {
        "pg_status": {pg: {"last_enqueued_collective": str(enqueued), "last_completed_collective": str(completed)}}
    }
    return Recorder("gloo", lambda: json.dumps(status).encode(), lambda: content)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    """Return a torch with one group of four ranks."""
    fake = FakeTorch(monkeypatch)
    fake.add("default_pg", 0, 1, 2, 3)
    return fake


def arrivals_seen(
    monkeypatch: pytest.MonkeyPatch, *found: Recorder, most: int = 512, seconds: float = 10.0
) -> list[SourceSeen | GroupSeen | GroupArrivals]:
    """Return what is reported of these recorders."""
    monkeypatch.setattr(sampling, "recorders", lambda: list(found))
    return arrivals_of(most, seconds)


def row_of(monkeypatch: pytest.MonkeyPatch, *found: Recorder, most: int = 512) -> tuple[GroupSeen, GroupArrivals]:
    """Return what is reported of the group of these recorders, and of its collectives."""
    group, row = arrivals_seen(monkeypatch, *found, most=most)
    assert isinstance(group, GroupSeen)
    assert isinstance(row, GroupArrivals)
    return group, row


def test_the_last_collectives_of_a_group_are_reported_with_their_times(
    torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Sends are left out, and a batch counts once.
    entries = [entry(1, 100), entry(1, 130), raw(1, "gloo:send 0->1", is_p2p=True), entry(2, 350)]
    group, row = row_of(monkeypatch, recorder(dump(*entries, enqueued=2, completed=2)))
    assert (group.members, group.size, group.backend) == ("0-3", 4, "gloo")
    assert (row.group, row.start, row.sequences, row.came) == (group.name, 100, (1, 2), (0, 250))
    assert (row.calls, row.which) == (("all_reduce",), (0, 0))
    assert row.took == ()


def test_durations_from_nccl_are_passed_on(torch: FakeTorch, monkeypatch: pytest.MonkeyPatch) -> None:
    nccl = entry(1, 100, duration_ms=1.5) | {"profiling_name": "nccl:all_reduce"}
    _, row = row_of(monkeypatch, recorder(dump(nccl, enqueued=1)))
    assert row.took == (1500,)
    # A pickle of an old torch is read as well.
    _, row = row_of(monkeypatch, Recorder("nccl", None, lambda: pickled(entry(1, 100), entry(2, 200))))
    assert row.came == (0, 100)


def test_a_rank_with_many_arrivals_sends_the_newest(torch: FakeTorch, monkeypatch: pytest.MonkeyPatch) -> None:
    content = dump(*(entry(number, 10 * number) for number in range(1, 601)), enqueued=600)
    _, row = row_of(monkeypatch, recorder(content, enqueued=600), most=64)
    assert (len(row.came), row.sequences[-1]) == (64, 600)


def never() -> bytes:
    raise AssertionError("it was read")


@pytest.mark.parametrize(
    "found",
    [
        [Recorder("gloo", recorder(b"", enqueued=100_000).status, never)],
        [recorder(b'{"entries":[{"collective_seq_id":1}]}')],
        [],
    ],
    ids=["it would stop the program for too long", "it holds something else", "without a recorder"],
)
def test_a_rank_without_arrivals_reports_the_reason(
    approved: Approved, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch, found: list[Recorder]
) -> None:
    (row,) = arrivals_seen(monkeypatch, *found, seconds=1.0)
    assert isinstance(row, SourceSeen)
    approved(row.limitation)


class Files:
    """Files of a kernel, below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.main = threading.main_thread().native_id
        self.write("proc/self/cgroup", "0::/jobs/7\n")
        self.counters()

    def write(self, path: str, text: str) -> None:
        """Write one of them."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def counters(self, *, queued: int = 0, throttled: int = 0) -> None:
        """Write counters; ``queued`` is in ns."""
        self.write(f"proc/self/task/{self.main}/schedstat", f"10 {queued} 3\n")
        self.write("groups/jobs/7/cpu.stat", f"usage_usec 1\nnr_periods 100\nnr_throttled {throttled}\n")

    def kernel(self) -> Kernel:
        """Return what reads them."""
        return Kernel(str(self.root / "proc"), str(self.root / "groups"))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Return the files of a kernel that counts nothing yet."""
    return Files(tmp_path)


def test_two_readings_show_the_waits_between_them(files: Files) -> None:
    kernel = files.kernel()
    before = kernel.read()
    files.counters(queued=2_500_000_000, throttled=83)
    after = kernel.read()
    used = processors(before, after, kernel.quota())
    assert (used.queued, used.throttled, used.periods) == (2.5, 83, 0)


def test_a_kernel_without_counters_has_no_values(tmp_path: Path) -> None:
    kernel = Kernel(str(tmp_path / "proc"), str(tmp_path / "groups"))
    before, after = kernel.read(), kernel.read()
    used = processors(before, after, kernel.quota())
    assert (used.queued, used.throttled, used.periods, used.quota) == (None, None, None, None)


@pytest.mark.parametrize(
    ("path", "text", "cores"),
    [
        ("cpu.max", "50000 100000\n", 0.5),
        ("cpu.max", "max 100000\n", None),
        ("cpu.cfs_quota_us", "-1\n", None),
        ("cpu.cfs_quota_us", "25000\n", 0.25),
    ],
)
def test_the_quota_of_the_group_is_in_cores(files: Files, path: str, text: str, cores: float | None) -> None:
    files.write(f"groups/jobs/7/{path}", text)
    files.write("groups/jobs/7/cpu.cfs_period_us", "100000\n")
    assert files.kernel().quota() == cores


def test_throttling_of_an_outer_group_counts(files: Files) -> None:
    files.write("groups/jobs/cpu.stat", "nr_periods 10\nnr_throttled 0\n")
    kernel = files.kernel()
    before = kernel.read()
    files.write("groups/jobs/cpu.stat", "nr_periods 20\nnr_throttled 9\n")
    used = processors(before, kernel.read(), None)
    assert (used.throttled, used.periods) == (9, 10)


class Clock:
    """Timers that are run in their order, with the time that passes meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "time_ns", lambda: round(self.now * 1e9))

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self._due.append((self.now + seconds, len(self._due), call))

    def run(self, until: float) -> None:
        """Run what is due until then."""
        while True:
            waiting = [one for one in self._due if one[0] <= until]
            if not waiting:
                return
            due = min(waiting)
            self._due.remove(due)
            self.now = max(self.now, due[0])
            due[2]()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the timers, and a place that costs nothing."""
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)
    return Clock(monkeypatch)


class Sampling:
    """A sampler, and what it has answered."""

    def __init__(self, clock: Clock) -> None:
        self.answers: list[tuple[int, Kind, str, tuple[object, ...]]] = []
        self._sampler = Sampler(clock.call_later)

    def ask(self, seconds: float, number: int = 1) -> None:
        question = SampleQuestion(seconds=seconds)
        asked = Ask(request=number, action=Action.SAMPLE, seconds=seconds + 10, inquiry=question)
        self._sampler.start(asked, question, self._hear)

    def _hear(self, ask: Ask, kind: Kind, text: str, rows: tuple[object, ...] = ()) -> None:
        self.answers.append((ask.request, kind, text, rows))

    def result(self, index: int = 0) -> Sampled:
        """Return the result in one of the answers."""
        result = sampled_in(self.answers[index][3])
        assert result is not None
        return result


@pytest.fixture
def sampled(clock: Clock) -> Sampling:
    return Sampling(clock)


def test_a_rank_is_sampled_for_the_requested_time(clock: Clock, sampled: Sampling) -> None:
    sampled.ask(10.0)
    clock.run(109.9)
    assert sampled.answers == []
    clock.run(200.0)
    result = sampled.result()
    assert result.sample.seconds == pytest.approx(10.0)
    assert (result.sample.start, result.sample.clock) == (100_000_000, 110_000_000)
    assert 80 <= result.sample.samples <= 120
    assert sum(len(place.times) for place in result.places) == result.sample.samples
    assert clock.now < 111.0, "looks end with the last question"


def test_a_long_sampling_has_a_bounded_number_of_samples(clock: Clock, sampled: Sampling) -> None:
    sampled.ask(300.0)
    clock.run(1000.0)
    assert sampled.result().sample.samples <= MAX_SNAPSHOTS


def test_slow_samples_are_taken_rarely(clock: Clock, sampled: Sampling, monkeypatch: pytest.MonkeyPatch) -> None:
    spent = iter(range(10**6))
    # Each look takes ten milliseconds.
    monkeypatch.setattr(time, "thread_time", lambda: next(spent) * 0.01)
    sampled.ask(50.0)
    clock.run(1000.0)
    assert 0.01 * sampled.result().sample.samples <= 1.5 * LOOK_SHARE * 50


def test_too_many_questions_are_refused(approved: Approved, sampled: Sampling) -> None:
    for number in range(MOST_OPEN + 1):
        sampled.ask(5.0, number)
    ((number, kind, text, _),) = sampled.answers
    approved(as_text((number, kind, text)))


def test_a_failed_sampling_is_answered_with_the_error(
    approved: Approved, clock: Clock, sampled: Sampling, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> list[object]:
        raise ZeroDivisionError

    monkeypatch.setattr(sampling, "arrivals_of", broken)
    sampled.ask(1.0)
    clock.run(200.0)
    ((number, kind, text, rows),) = sampled.answers
    assert (number, kind, rows) == (1, Kind.ERROR, ())
    approved(text)


def test_rarely_seen_places_are_merged(clock: Clock) -> None:
    places = [((f"/{number}.py", 1, "f"),) for number in range(MAX_PLACES + 8)]
    samples = [(at, place) for at, place in enumerate([*places, *places[: MAX_PLACES - 1]])]
    rows = sampled_places(samples, 0)
    assert len(rows) == MAX_PLACES
    assert sum(len(row.times) for row in rows) == len(samples)
    assert [len(row.times) for row in rows if not row.frames] == [9]


def test_the_main_thread_is_sampled_in_this_test() -> None:
    steps = Places().look()
    assert any(function == "test_the_main_thread_is_sampled_in_this_test" for _, _, function in steps)


def test_the_users_frame_is_kept_below_a_deep_library() -> None:
    library: dict[str, Any] = {"look": Places().look}
    path = f"{sysconfig.get_path('stdlib')}/deep.py"
    exec(compile("def deep(n):\n    return deep(n - 1) if n else look()", path, "exec"), library)  # noqa: S102
    steps = library["deep"](20)
    assert len(steps) == MAX_FRAMES
    assert steps[0][2] == "test_the_users_frame_is_kept_below_a_deep_library"


def test_rare_places_end_at_the_users_line() -> None:
    user = ("/home/me/train.py", 30, "main")
    samples = [(at, (user, ("/usr/lib/python3/site-packages/a.py", at, "f"))) for at in range(90)]
    rows = sampled_places(samples, 0)
    assert sum(len(row.times) for row in rows if row.frames[0].line == 30) == 90
