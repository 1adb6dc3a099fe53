"""Messages to held ranks about the chosen ranks, and to the ranks of a run about its crashed ranks."""

from __future__ import annotations

from typing import Any

from dbg_broker.ranks.failures import CrashedRanks
from dbg_broker.ranks.held_ranks import HeldRanks
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.ranks.registry import Registry
from dbg_broker.ranks.remote_ranks import RemoteRanks
from dbg_wire.messages import Arrival, Chosen, ChosenRank, KeptRanks, RankReport, Waiting
from dbg_wire.records.ranks import RankState
from tests.unit.broker.peers import RUNNING, STOP, STOPPED, registration

SITE = "/home/me/train.py:41"

HELD = RankReport(
    state=RankState.HELD,
    stop=STOP.replace(reason="hold"),
    waits=Waiting(site=SITE, count=1, ranks=(0,)),
)

CRASHED = STOPPED.replace(stop=STOP.replace(reason="crash"))


def at_site(arrived: int, completed: int, report: RankReport = STOPPED) -> RankReport:
    return report.replace(arrivals=(Arrival(site=SITE, arrived=arrived, completed=completed),))


class Job:
    """Ranks that register and report, and the messages that they get."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.holds = HeldRanks(self.registry, RemoteRanks())
        self.crashes = CrashedRanks()
        self.now = 0.0

    def enter(self, number: int, report: RankReport, **changes: Any) -> RankRecord:
        self.now += 1
        return self.registry.register(registration(number, report=report, **changes), self.now).rank

    def report(self, rank: RankRecord, report: RankReport) -> dict[str, Chosen]:
        self.now += 1
        self.registry.report(rank, report, self.now)
        return self.update(rank)

    def update(self, rank: RankRecord) -> dict[str, Chosen]:
        self.holds.changed(rank)
        return self.hold_messages()

    def hold_messages(self) -> dict[str, Chosen]:
        return {key: item.message for item in self.holds.news() for key in item.keys}  # type: ignore[misc]

    def kept(self, rank: RankRecord) -> dict[str, KeptRanks]:
        self.crashes.changed(rank)
        return self.crash_messages()

    def crash_messages(self) -> dict[str, KeptRanks]:
        return {key: item.message for item in self.crashes.news() for key in item.keys}  # type: ignore[misc]


def chosen(arrived: int, completed: int, state: RankState | None) -> Chosen:
    return Chosen(site=SITE, ranks=(ChosenRank(rank=0, arrived=arrived, completed=completed, state=state),))


def test_held_rank_receives_chosen_ranks_at_once_and_after_each_change() -> None:
    job = Job()
    first = job.enter(0, RUNNING)
    assert job.update(first) == {}
    held = job.enter(1, HELD)
    assert job.update(held) == {held.key: chosen(0, 0, RankState.RUNNING)}
    assert job.report(first, at_site(1, 0)) == {held.key: chosen(1, 0, RankState.STOPPED)}
    assert job.report(first, at_site(1, 0)) == {}
    assert job.report(first, at_site(1, 1, RUNNING)) == {held.key: chosen(1, 1, RankState.RUNNING)}


def test_a_rank_of_another_run_is_another_rank() -> None:
    job = Job()
    other = job.enter(0, RUNNING, run="1.0", key="another")
    held = job.enter(1, HELD)
    assert job.update(held) == {held.key: chosen(0, 0, None)}
    assert job.report(other, at_site(1, 1)) == {}
    assert job.update(other) == {}


def test_chosen_rank_that_ends_is_reported_as_exited() -> None:
    job = Job()
    first, held = job.enter(0, at_site(1, 0)), job.enter(1, HELD)
    job.update(first), job.update(held)
    job.now += 1
    job.registry.goodbye(first, 1, job.now)
    assert job.update(first) == {held.key: chosen(1, 0, RankState.EXITED)}


def test_reconnected_rank_receives_the_message_again() -> None:
    job = Job()
    first, held = job.enter(0, at_site(1, 0)), job.enter(1, HELD)
    job.update(first), job.update(held)
    assert job.update(held) == {}
    job.holds.reconnected(held.key)
    assert job.update(held) == {held.key: chosen(1, 0, RankState.STOPPED)}


def test_all_ranks_of_a_run_and_newcomers_receive_the_kept_ranks() -> None:
    job = Job()
    ranks = [job.enter(number, RUNNING) for number in range(2)]
    assert [job.kept(rank) for rank in ranks] == [{}, {}]
    job.registry.report(ranks[1], CRASHED, 50.0)
    assert job.kept(ranks[1]) == {rank.key: KeptRanks(ranks=(1,)) for rank in ranks}
    late = job.enter(2, RUNNING)
    assert job.kept(late) == {late.key: KeptRanks(ranks=(1,))}
    other = job.enter(0, RUNNING, run="1.0", key="another")
    assert job.kept(other) == {}


def test_a_crash_is_kept_until_its_rank_has_exited() -> None:
    job = Job()
    ranks = [job.enter(0, RUNNING), job.enter(1, CRASHED)]
    for rank in ranks:
        job.kept(rank)
    job.registry.disconnected(ranks[1], 60.0)
    assert job.kept(ranks[1]) == {}
    job.registry.found_dead(ranks[1], 61.0)
    assert job.kept(ranks[1]) == {ranks[0].key: KeptRanks(ranks=())}


def test_forgotten_crashed_rank_keeps_no_rank_waiting() -> None:
    job = Job()
    crashed, other = job.enter(0, CRASHED), job.enter(1, RUNNING)
    for rank in (crashed, other):
        job.kept(rank)
    job.registry.disconnected(crashed, job.now)
    assert crashed.state is RankState.LOST
    assert job.kept(crashed) == {}
    assert job.crashes.forget(crashed.key)
    assert job.crash_messages() == {other.key: KeptRanks(ranks=())}
    assert not job.crashes.forget(crashed.key)
    assert not job.crashes.forget(other.key)
    assert len(job.crashes) == 0
