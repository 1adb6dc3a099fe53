"""Crashes are reported together, and the first failure of a run is named."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterable

import pytest

from dbg_broker.ranks.failures import FirstFailures
from dbg_broker.ranks.rank_record import RankRecord
from dbg_wire.messages import KeptRanks, RankReport
from dbg_wire.records.ranks import EndKind, RankState
from tests.conftest import Approved
from tests.unit.broker.peers import RUNNING, registration
from tests.unit.broker.ranks.test_held_ranks import CRASHED, Job

RANKS = 200


def report_together(job: Job, ranks: Iterable[RankRecord], report: RankReport) -> dict[str, KeptRanks]:
    """Have all ranks report before any rank is notified; return the messages by the key of the rank that gets them."""
    job.now += 1
    for rank in ranks:
        job.registry.report(rank, report, job.now)
        assert job.crashes.changed(rank)
    return job.crash_messages()


def whole(count: int = RANKS) -> tuple[Job, list[RankRecord]]:
    job = Job()
    ranks = [job.enter(number, RUNNING) for number in range(count)]
    for rank in ranks:
        job.kept(rank)
    return job, ranks


def test_ranks_that_crash_together_are_reported_once_to_each_rank() -> None:
    job, ranks = whole()
    everybody = {rank.key: KeptRanks(ranks=tuple(range(RANKS))) for rank in ranks}
    assert report_together(job, ranks, CRASHED) == everybody
    assert job.crash_messages() == {}


def ended(number: int, left: float, exit_status: int | None, *, run: str = "0.0", died: bool = False) -> RankRecord:
    entry = registration(number, run=run)
    record = RankRecord(
        registration=entry, report=entry.report, state=RankState.EXITED, child=None, since=0, heard=0, entered=0
    )
    record.end.left, record.end.exit = left, exit_status
    record.end.kind = EndKind.DIED if died else EndKind.GOODBYE
    if exit_status is not None and exit_status < 0:
        record.end.signal = -exit_status
    return record


def causes(records: list[RankRecord]) -> dict[int, str]:
    failures = FirstFailures()
    for at, record in enumerate(records):
        failures.note(record, lambda at=at: records[: at + 1])  # type: ignore[misc]
    return {record.identity.rank: record.end.cause for record in records}


def test_ranks_that_a_launcher_ended_name_the_one_that_failed_first(approved: Approved) -> None:
    named = set()
    for order in itertools.permutations(range(4)):
        records = [ended(0, 10.0, -9), ended(1, 10.2, -15), ended(2, 40.3, -9), ended(3, 10.1, 0)]
        found = causes([records[at] for at in order])
        assert found[0] == found[3] == ""
        named |= {found[1], found[2]}
    approved("\n".join(named))


@pytest.mark.parametrize(
    "first", [ended(0, 10.0, 1), ended(0, 11.9, 1), ended(0, 10.0, -50)], ids=["status", "late", "signal"]
)
def test_first_failure_is_described(approved: Approved, first: RankRecord) -> None:
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
def test_unrelated_end_names_no_first_failure(other: RankRecord) -> None:
    assert causes([ended(0, 10.0, 1), other])[1] == ""


def test_first_failure_may_become_known_late() -> None:
    failures, first, other = FirstFailures(), ended(0, 10.0, None, died=True), ended(1, 11.0, -15)
    for rank in (first, other):
        failures.note(rank, lambda: [first, other])
    assert not other.end.cause
    first.end.exit, first.end.signal = -9, 9
    assert failures.note(first, lambda: [first, other]) == [other]
    assert other.end.cause.endswith("rank 0 was killed by SIGKILL")
    assert failures.note(first, lambda: [first, other]) == []
