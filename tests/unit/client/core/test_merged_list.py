"""The lists of several brokers as one: whose word on a rank counts, and what stays of a broker that is away."""

from __future__ import annotations

import pytest

from dbg_client.core.brokers import MergedList
from dbg_wire.messages import Change, Gone, Snapshot
from dbg_wire.records.ranks import RankInfo, RankState
from tests.unit.client.fake_broker import make_rank

KEY = make_rank().key
LOST, RUNNING, STOPPED, EXITED = RankState.LOST, RankState.RUNNING, RankState.STOPPED, RankState.EXITED


def record(epoch: int, state: RankState = STOPPED) -> RankInfo:
    return make_rank(state=state).replace(epoch=epoch)


def change(broker: str, epoch: int, state: RankState = STOPPED) -> tuple[str, Change]:
    return broker, Change(rank=record(epoch, state))


def whole(broker: str, *ranks: RankInfo) -> tuple[str, Snapshot]:
    return broker, Snapshot(ranks=ranks, last=True)


def gone(broker: str) -> tuple[str, Gone]:
    return broker, Gone(key=KEY)


@pytest.mark.parametrize(
    ("messages", "is_stopped"),
    [
        ([change("a", 1)], ("a", 1, STOPPED)),
        ([change("a", 1), change("b", 2)], ("b", 2, STOPPED)),
        ([change("b", 2), change("a", 1)], ("b", 2, STOPPED)),
        ([change("a", 1), change("b", 2), change("a", 1, LOST)], ("b", 2, STOPPED)),
        ([change("a", 1), change("b", 2), gone("a")], ("b", 2, STOPPED)),
        ([change("a", 1), change("b", 2), gone("b")], None),
        ([change("a", 1), change("b", 2), whole("a")], ("b", 2, STOPPED)),
        ([change("a", 1), change("b", 2), whole("b")], None),
        ([change("a", 1), change("b", 2), change("a", 3, RUNNING)], ("a", 3, RUNNING)),
        ([change("b", 2), whole("a", record(1))], ("b", 2, STOPPED)),
        ([change("a", 2), change("a", 1)], ("a", 1, STOPPED)),
        # Of one registration, the broker that has lost the rank knows less than a guard that speaks at another one.
        ([change("a", 1, LOST), change("b", 1)], ("b", 1, STOPPED)),
        ([change("b", 1), change("a", 1, LOST)], ("b", 1, STOPPED)),
        # A process that has ended does not come back.
        ([change("a", 2), change("b", 0, EXITED)], ("b", 0, EXITED)),
        ([change("b", 0, EXITED), change("a", 2)], ("b", 0, EXITED)),
    ],
)
def test_newer_record_of_a_rank_is_used(
    messages: list[tuple[str, Snapshot | Change | Gone]], is_stopped: tuple[str, int, RankState] | None
) -> None:
    merged = MergedList[str]()
    for broker, message in messages:
        merged.take(broker, message)
    rank = next(iter(merged.whole().ranks), None)
    assert is_stopped == (None if rank is None else (merged.owner(KEY), rank.epoch, rank.state))


def test_ranks_of_a_broker_are_kept_until_its_next_snapshot_is_complete() -> None:
    merged = MergedList[str]()
    first, second, third = map(make_rank, range(3))
    merged.start("a")
    assert merged.is_awaited
    assert not merged.take("a", Snapshot(ranks=(first,), last=False))
    assert merged.take("a", Snapshot(ranks=(second,), last=True))
    assert not merged.is_awaited
    merged.take("b", Snapshot(ranks=(third,), last=True))
    merged.cut_off("a")
    assert merged.whole().ranks == (first, second, third)
    merged.start("a")
    merged.take("a", Change(rank=first))
    merged.take("a", Snapshot(ranks=(), last=True))
    assert merged.whole().ranks == (first, third)


def test_dropping_a_broker_removes_only_its_ranks() -> None:
    merged = MergedList[str]()
    merged.take("a", Snapshot(ranks=(make_rank(1), make_rank(2)), last=True))
    merged.take("b", Snapshot(ranks=(make_rank(2).replace(epoch=1),), last=True))
    assert merged.drop(lambda _, owner: owner == "a")
    assert not merged.drop(lambda _, owner: owner == "a")
    assert [rank.rank for rank in merged.whole().ranks] == [2]


def test_a_change_between_two_pages_of_a_snapshot_is_not_lost() -> None:
    merged = MergedList[str]()
    merged.start("a")
    assert not merged.take("a", Snapshot(ranks=(record(1),), last=False))
    merged.take(*change("a", 1, RUNNING))
    assert merged.take("a", Snapshot(ranks=(make_rank(1),), last=True))
    assert [(rank.rank, rank.state) for rank in merged.whole().ranks] == [(make_rank().rank, RUNNING), (1, STOPPED)]
