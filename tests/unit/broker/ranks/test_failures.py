"""Which rank of a run is told to have failed first, in whatever order the broker hears of the ends."""

from __future__ import annotations

import itertools
import signal

import pytest

from dbg_broker.ranks.failures import FirstFailures
from dbg_broker.ranks.rank_record import RankRecord
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.unit.broker.peers import registration


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


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_ranks_that_a_launcher_ended_name_the_one_that_failed_first(order: tuple[int, ...]) -> None:
    records = [ended(0, 10.0, -9), ended(1, 10.2, -15), ended(2, 40.3, -9), ended(3, 10.1, 0)]
    found = causes([records[at] for at in order])
    told = "likely from its launcher, after rank 0 was killed by SIGKILL"
    assert found == {0: "", 1: told, 2: told, 3: ""}


@pytest.mark.parametrize(
    ("first", "text"),
    [
        (ended(0, 10.0, 1), "rank 0 had exited with status 1"),
        (ended(0, 11.9, 1), "rank 0 had exited with status 1"),
        (ended(0, 10.0, -50), "rank 0 was killed by SIGRTMIN+16"),
    ],
)
def test_how_the_first_one_failed_is_told(approved: Approved, first: RankRecord, text: str) -> None:
    text = text.replace("SIGRTMIN+16", "signal 50")
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


def test_what_is_no_longer_listed_is_forgotten() -> None:
    failures, first = FirstFailures(), ended(0, 10.0, 1)
    failures.note(first, lambda: [first])
    failures.forget("another")
    failures.forget(first.key)
    late = ended(1, 11.0, -15)
    assert failures.note(late, lambda: [late]) == []
    assert not late.end.cause
