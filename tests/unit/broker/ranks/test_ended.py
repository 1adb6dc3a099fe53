"""Ended ranks stay listed within a bound in bytes; a rank of unusual size goes before ranks of usual size."""

from __future__ import annotations

import itertools
import signal
from collections import Counter
from collections.abc import Callable, Hashable, Iterable

import pytest

from dbg_broker.net.websocket import pack_message
from dbg_broker.ranks.broadcast import Broadcasts
from dbg_broker.ranks.failures import CrashedRanks, FirstFailures
from dbg_broker.ranks.held_ranks import HeldRanks
from dbg_broker.ranks.memory import EndedRanks
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.ranks.registry import Registry
from dbg_broker.timers import Timers
from dbg_wire import limits
from dbg_wire.messages import Arrival, Chosen, Kept, RankReport, Waiting
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.unit.broker.peers import RUNNING, STOP, STOPPED, registration
from tests.unit.broker.ranks.test_held_ranks import CRASHED, Job


@pytest.mark.parametrize("size", [10, limits.MAX_ENDED_BYTES // 10])
def test_a_job_with_many_ended_ranks_pushes_off_its_own(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(limits, "MAX_ENDED_RANKS", 4)
    ended = EndedRanks()
    ended.put("crashed", "mine", 2 * size, 0.0)
    for number in range(20):
        ended.put(str(number), "theirs", size, 1.0)
    gone = list(ended.overdue(2.0))
    assert gone == [str(number) for number in range(17)]
    assert ended.sizes.size == 5 * size
    # The jobs that have nothing left are forgotten as well.
    assert list(ended.overdue(1.0 + limits.ENDED_RANK_SECONDS)) == ["crashed", "17", "18", "19"]
    assert (len(ended), ended.sizes.size, len(ended._jobs)) == (0, 0, 0)


def test_the_heaviest_of_the_job_with_most_bytes_go() -> None:
    ended = EndedRanks()
    ended.put("crashed", "mine", limits.MAX_ENDED_BYTES // 4, 0.0)
    for number in range(50):
        ended.put(str(number), "theirs", limits.MAX_ENDED_BYTES // 20 + number, 1.0)
    gone = list(ended.overdue(2.0))
    assert "crashed" not in gone
    assert ended.sizes.size <= limits.MAX_ENDED_BYTES


RANKS = 200


def report_together(job: Job, ranks: Iterable[RankRecord], report: RankReport) -> dict[str, Kept]:
    """Have all ranks report before any rank is told; return the messages by the key of the rank that gets them."""
    job.now += 1
    for rank in ranks:
        job.registry.report(rank, report, job.now)
        assert job.crashes.changed(rank)
    return job.crash_tellings()


def whole(count: int = RANKS) -> tuple[Job, list[RankRecord]]:
    job = Job()
    ranks = [job.enter(number, RUNNING) for number in range(count)]
    for rank in ranks:
        job.kept(rank)
    return job, ranks


def test_of_ranks_that_crash_together_each_rank_is_told_once() -> None:
    job, ranks = whole()
    everybody = {rank.key: Kept(ranks=tuple(range(RANKS))) for rank in ranks}
    assert report_together(job, ranks, CRASHED) == everybody
    assert job.crash_tellings() == {}


def test_of_ranks_that_end_together_each_rank_is_told_once() -> None:
    job, ranks = whole(4)
    report_together(job, ranks, CRASHED)
    assert report_together(job, ranks[:3], RUNNING) == {rank.key: Kept(ranks=(3,)) for rank in ranks}
    assert report_together(job, ranks[3:], RUNNING) == {rank.key: Kept(ranks=()) for rank in ranks}


def ended(number: int, left: float, exit_status: int | None, *, run: str = "0.0", died: bool = False) -> RankRecord:
    said = registration(number, run=run)
    record = RankRecord(
        registration=said, report=said.report, state=RankState.EXITED, child=None, since=0, heard=0, entered=0
    )
    record.end.left, record.end.exit, record.end.died = left, exit_status, died
    if exit_status is not None and exit_status < 0:
        record.end.signal = -exit_status
    return record


def causes(records: list[RankRecord]) -> dict[int, str]:
    failures = FirstFailures()
    for at, record in enumerate(records):
        failures.note(record, lambda at=at: records[: at + 1])  # type: ignore[misc]
    return {record.identity.rank: record.end.cause for record in records}


def test_ranks_that_a_launcher_ended_name_the_one_that_failed_first(approved: Approved) -> None:
    told = set()
    for order in itertools.permutations(range(4)):
        records = [ended(0, 10.0, -9), ended(1, 10.2, -15), ended(2, 40.3, -9), ended(3, 10.1, 0)]
        found = causes([records[at] for at in order])
        assert found[0] == found[3] == ""
        told |= {found[1], found[2]}
    approved("\n".join(told))


@pytest.mark.parametrize(
    "first", [ended(0, 10.0, 1), ended(0, 11.9, 1), ended(0, 10.0, -50)], ids=["status", "late", "signal"]
)
def test_how_the_first_one_failed_is_told(approved: Approved, first: RankRecord) -> None:
    approved(causes([first, ended(1, 11.0, -signal.SIGTERM)])[1])


@pytest.mark.parametrize(
    "other",
    [
        ended(1, 8.9, -15),
        ended(1, 200.0, -15),
        ended(1, 11.0, -11),
        ended(1, 11.0, 1),
        ended(1, 11.0, -15, run="1.0"),
        ended(1, 11.0, None, died=True),
    ],
)
def test_an_end_that_has_nothing_to_do_with_it_names_nobody(other: RankRecord) -> None:
    assert causes([ended(0, 10.0, 1), other])[1] == ""


def test_how_the_first_one_has_ended_may_become_known_late() -> None:
    failures, first, other = FirstFailures(), ended(0, 10.0, None, died=True), ended(1, 11.0, -15)
    for rank in (first, other):
        failures.note(rank, lambda: [first, other])
    assert not other.end.cause
    first.end.exit, first.end.signal = -9, 9
    assert failures.note(first, lambda: [first, other]) == [other]
    assert other.end.cause.endswith("rank 0 was killed by SIGKILL")
    assert failures.note(first, lambda: [first, other]) == []


RANKS_BROADCAST = 1024
CHOSEN = tuple(range(0, RANKS_BROADCAST, 8))
SITE = "/home/me/train.py:41"
HELD = RankReport(state=RankState.HELD, stop=STOP, waits=Waiting(site=SITE, count=1, ranks=CHOSEN))
CRASHED_BROADCAST = STOPPED.replace(stop=STOP.replace(reason="crash"))


def at_site(arrived: int, completed: int) -> RankReport:
    report = STOPPED if completed < arrived else RUNNING
    return report.replace(arrivals=(Arrival(site=SITE, arrived=arrived, completed=completed),))


class JobBroadcast:
    """The ranks of one job, and an event loop that makes a turn only when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.packed: Counter[type] = Counter()
        self.changes = 0
        self.told: Counter[str] = Counter()
        self.turns: list[int] = []
        self.registry = Registry()
        self.holds = HeldRanks(self.registry)
        self.crashes = CrashedRanks()
        self.behind: set[str] = set()
        self.spread = Broadcasts(
            (self.holds.news, self.crashes.news), self.pack, self.tell, Timers(lambda: self.now, self.schedule)
        )
        self.ranks = [self.registry.register(registration(n, report=RUNNING), 0.0).rank for n in range(RANKS_BROADCAST)]
        for rank in self.ranks:
            self.changed(rank)
        self.turn_until_quiet()

    def schedule(self, seconds: float, call: Callable[[], None]) -> None:
        self.due.append((self.now + seconds, call))

    def pack(self, message: Chosen | Kept) -> bytes:
        self.packed[type(message)] += 1
        self.changes += len(message.ranks)
        return pack_message(message)

    def tell(self, frame: bytes, key: str, name: Hashable) -> None:
        if name is None and key in self.behind:
            self.holds.missed(key)
            return
        self.told[key] += 1
        self.turns[-1] += 1

    def changed(self, rank: RankRecord) -> None:
        if self.holds.changed(rank) | self.crashes.changed(rank):
            self.spread.changed()

    def report(self, number: int, report: RankReport) -> None:
        self.registry.report(self.ranks[number], report, self.now)
        self.changed(self.ranks[number])

    def turn(self) -> None:
        """Advance the time to the next call that is due, and run all calls that are due then."""
        self.turns.append(0)
        self.now = max(self.now, min(at for at, _ in self.due))
        now_due = [call for at, call in self.due if at <= self.now]
        self.due = [(at, call) for at, call in self.due if at > self.now]
        for call in now_due:
            call()

    def turn_until_quiet(self) -> None:
        while self.due:
            self.turn()


@pytest.fixture
def job() -> JobBroadcast:
    return JobBroadcast()


def test_a_held_rank_hears_only_of_those_that_changed(job: JobBroadcast) -> None:
    for number in range(RANKS_BROADCAST):
        job.report(number, at_site(1, 0) if number in CHOSEN else HELD)
    job.turn_until_quiet()
    job.changes = 0
    for number in CHOSEN[:3]:
        job.report(number, at_site(1, 1))
        job.report(number, at_site(1, 1))
        job.turn_until_quiet()
    assert job.changes == 3


@pytest.mark.parametrize("number", [CHOSEN[5], 1])
def test_a_report_that_changes_nothing_for_others_is_told_to_nobody(job: JobBroadcast, number: int) -> None:
    for other in range(RANKS_BROADCAST):
        job.report(other, at_site(1, 0) if other in CHOSEN else HELD)
    job.turn_until_quiet()
    job.told.clear()
    job.report(number, job.ranks[number].report.replace(applied=1))
    job.turn_until_quiet()
    assert not job.told


def test_a_whole_job_that_crashes_in_one_turn_hears_so_once(job: JobBroadcast) -> None:
    for number in range(RANKS_BROADCAST):
        job.report(number, CRASHED_BROADCAST)
    job.turn_until_quiet()
    assert set(job.told.values()) == {1}
    assert job.packed[Kept] == 1
    for number in range(RANKS_BROADCAST):
        job.registry.goodbye(job.ranks[number], 1, job.now)
        job.changed(job.ranks[number])
    job.turn_until_quiet()
    assert job.told.total() == RANKS_BROADCAST
