"""A job whose ranks all stop, crash or go on at once: each rank is told once, and a bounded number in each turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable

import pytest

from dbg_broker.net.websocket import pack_message
from dbg_broker.ranks.broadcast import REST_SECONDS, SENT_AT_ONCE, Broadcasts
from dbg_broker.ranks.failures import CrashedRanks
from dbg_broker.ranks.held_ranks import HeldRanks
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.ranks.registry import Registry
from dbg_broker.timers import Timers
from dbg_wire.messages import Arrival, Chosen, Kept, RankReport, Waiting
from dbg_wire.records.ranks import RankState
from tests.unit.broker.peers import RUNNING, STOP, STOPPED, registration

RANKS = 1024
CHOSEN = tuple(range(0, RANKS, 8))
SITE = "/home/me/train.py:41"
HELD = RankReport(state=RankState.HELD, stop=STOP, waits=Waiting(site=SITE, count=1, ranks=CHOSEN))
CRASHED = STOPPED.replace(stop=STOP.replace(reason="crash"))


def at_site(arrived: int, completed: int) -> RankReport:
    report = STOPPED if completed < arrived else RUNNING
    return report.replace(arrivals=(Arrival(site=SITE, arrived=arrived, completed=completed),))


class Job:
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
        self.ranks = [self.registry.register(registration(n, report=RUNNING), 0.0).rank for n in range(RANKS)]
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
def job() -> Job:
    return Job()


def test_each_held_rank_is_told_once_for_all_that_changed_in_a_turn(job: Job) -> None:
    for number in range(RANKS):
        job.report(number, at_site(1, 0) if number in CHOSEN else HELD)
    job.turn_until_quiet()
    held = RANKS - len(CHOSEN)
    assert set(job.told.values()) == {1}
    assert job.told.total() == held
    assert job.packed[Chosen] == 1
    for number in CHOSEN:
        job.report(number, at_site(1, 1))
    job.turn_until_quiet()
    assert set(job.told.values()) == {2}
    assert job.packed[Chosen] == 2
    assert max(job.turns) <= SENT_AT_ONCE


def test_a_held_rank_hears_only_of_those_that_changed(job: Job) -> None:
    for number in range(RANKS):
        job.report(number, at_site(1, 0) if number in CHOSEN else HELD)
    job.turn_until_quiet()
    job.changes = 0
    for number in CHOSEN[:3]:
        job.report(number, at_site(1, 1))
        job.report(number, at_site(1, 1))
        job.turn_until_quiet()
    assert job.changes == 3


@pytest.mark.parametrize("number", [CHOSEN[5], 1])
def test_a_report_that_changes_nothing_for_others_is_told_to_nobody(job: Job, number: int) -> None:
    for other in range(RANKS):
        job.report(other, at_site(1, 0) if other in CHOSEN else HELD)
    job.turn_until_quiet()
    job.told.clear()
    job.report(number, job.ranks[number].report.replace(applied=1))
    job.turn_until_quiet()
    assert not job.told


def test_what_comes_one_by_one_is_gathered_while_the_last_telling_rests(job: Job) -> None:
    for number in range(RANKS):
        if number not in CHOSEN:
            job.report(number, HELD)
    job.turn_until_quiet()
    job.packed.clear()
    began = job.now
    for number in CHOSEN:
        job.report(number, at_site(1, 0))
        job.now += REST_SECONDS / 20
        while job.due and min(at for at, _ in job.due) <= job.now:
            job.turn()
    job.turn_until_quiet()
    assert job.packed[Chosen] <= 2 + (job.now - began) / REST_SECONDS


def test_one_that_was_behind_is_told_all_of_it_later(job: Job) -> None:
    job.report(1, HELD)
    job.turn_until_quiet()
    key = job.ranks[1].key
    job.behind.add(key)
    job.changes = 0
    job.report(0, at_site(1, 1))
    job.turn_until_quiet()
    assert job.changes == 1 + len(CHOSEN)
    assert job.told[key] == 2


def test_a_whole_job_that_crashes_in_one_turn_hears_so_once(job: Job) -> None:
    for number in range(RANKS):
        job.report(number, CRASHED)
    job.turn_until_quiet()
    assert set(job.told.values()) == {1}
    assert job.packed[Kept] == 1
    for number in range(RANKS):
        job.registry.goodbye(job.ranks[number], 1, job.now)
        job.changed(job.ranks[number])
    job.turn_until_quiet()
    assert job.told.total() == RANKS
