"""Ranks that crash together, and the number of messages that they cost the broker."""

from __future__ import annotations

from collections.abc import Iterable

from dbg_broker.ranks.rank_record import RankRecord
from dbg_wire.messages import Kept, RankReport
from tests.unit.broker.peers import RUNNING
from tests.unit.broker.ranks.test_held_ranks import CRASHED, Job

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


def test_nothing_is_left_of_runs_that_are_over() -> None:
    job, ranks = whole(2)
    report_together(job, ranks, CRASHED)
    for rank in ranks:
        job.crashes.forget(rank.key)
    assert job.crash_tellings() == {}
    assert len(job.crashes) == 0
