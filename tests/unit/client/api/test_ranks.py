"""What a program asks of ranks, at a broker that answers as a test has prepared it."""

from __future__ import annotations

import pytest

import dbg_client
from dbg_client.api.targets import Wanted, read_wanted, target_text
from dbg_client.core.errors import RankEnded
from dbg_client.core.remembered_groups import UnknownGroup
from dbg_wire.errors import BadInput
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.targets.selection import select
from tests.unit.client.fake_broker import FakeBroker, make_rank


def running(number: int) -> RankInfo:
    return make_rank(number, state=RankState.RUNNING, reason=None, where=None)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> pytest.MonkeyPatch:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def visit(monkeypatch: pytest.MonkeyPatch, broker: FakeBroker) -> dbg_client.Broker:
    for name, value in broker.environment.items():
        monkeypatch.setenv(name, value)
    return dbg_client.connect()


def test_a_wait_for_each_rank_names_those_that_run(environment: pytest.MonkeyPatch) -> None:
    with FakeBroker(make_rank(0), running(1), running(2), running(3)) as fake, visit(environment, fake) as broker:
        job = broker.job()
        assert [rank.rank for rank in job[0].wait_for_each(0.0)] == [0]
        for ranks in (job, job[2], job[7]):
            with pytest.raises(dbg_client.TimedOut):
                ranks.wait_for_each(0.0)
    ended = make_rank(0, state=RankState.EXITED, exit=1, where=None)
    with FakeBroker(ended) as fake, visit(environment, fake) as broker, pytest.raises(RankEnded):
        broker.job("4711.0").wait_for_each(0.0)


def test_ranks_without_breakpoints_and_ranks_that_know_none_are_told_apart(environment: pytest.MonkeyPatch) -> None:
    fake = FakeBroker(make_rank(0), make_rank(1))
    stock = RankAnswer(key="", kind=Kind.ERROR, text="an older debugger")
    fake.answers[Action.BREAKPOINTS] = RankAnswer(key="", kind=Kind.VALUE, text="")
    with fake, visit(environment, fake) as broker:
        fake.said[make_rank(1).key] = stock
        answer = broker.job().breakpoints()
        assert [(group.kind, group.ranks) for group in answer.groups] == [("value", "0"), ("error", "1")]
        assert answer.by_rank == {"gpu013:0": ()}
        assert answer.errors == {"gpu013:1": stock.text}


def test_a_job_that_is_not_there_or_not_named_is_told_with_those_that_live(environment: pytest.MonkeyPatch) -> None:
    ranks = (make_rank(0), make_rank(1, job="train-2"))
    with FakeBroker(*ranks) as fake, visit(environment, fake) as broker:
        with pytest.raises(dbg_client.DbgError):
            broker.job("train-3")
        with pytest.raises(dbg_client.DbgError):
            broker.job()
        assert broker.job("train-2").list() == (ranks[1],)
    with (
        FakeBroker() as fake,
        visit(environment, fake) as broker,
        pytest.raises(dbg_client.DbgError),
    ):
        broker.job()


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ("0-7,!3", "0-7,!3"),
        (5, "5"),
        ([0, 3], "0,3"),
        (slice(0, 8), "0-7"),
        (slice(0, 8, 2), "0-7/2"),
        (slice(None), "all"),
    ],
)
def test_ranks_are_named_as_in_python_and_as_in_the_terminal(wanted: Wanted, text: str) -> None:
    assert target_text(wanted) == text


@pytest.mark.parametrize("wanted", [[], slice(4, 4), slice(3, None), slice(8, 2)])
def test_what_names_no_rank_is_an_error_that_says_what_to_write(wanted: Wanted) -> None:
    with pytest.raises(BadInput, match=r"as in job\["):
        target_text(wanted)


def test_a_target_is_of_the_job_alone_and_knows_the_groups_of_the_last_answer() -> None:
    ranks = [make_rank(0), make_rank(1), make_rank(0, key="other", job="other", address="gpu013:0")]
    assert [rank.job for rank in select(read_wanted("all", "4711.0", {}), ranks).ranks] == ["4711.0", "4711.0"]
    group = read_wanted("@1", "4711.0", {"@1": frozenset({ranks[1].key})})
    assert select(group, ranks).ranks == (ranks[1],)
    with pytest.raises(UnknownGroup, match="no group @2"):
        read_wanted("@2", "4711.0", {"@1": frozenset({ranks[1].key})})
