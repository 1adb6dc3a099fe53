"""Ranks, their states, addresses and children."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.ranks.registry import Registry
from dbg_wire import limits
from dbg_wire.records.ranks import DIED, LIVE_STATES, Limit, LimitKind, Numbering, RankInfo, RankState
from tests.unit.broker.peers import RUNNING, STOP, STOPPED, registration


def enter(registry: Registry, number: int = 0, now: float = 0.0, **changes: Any) -> RankRecord:
    return registry.register(registration(number, **changes), now).rank


def info(registry: Registry, rank: RankRecord, epoch: float = 1000.0) -> RankInfo:
    return rank.info(began=epoch)


def test_a_listed_rank_has_the_epoch_of_its_last_registration() -> None:
    registry = Registry()
    rank = enter(registry)
    before = [info(registry, rank).epoch]
    registry.register(registration(0).replace(epoch=3), 1.0)
    assert [*before, info(registry, rank).epoch] == [0, 3]


def test_since_is_the_begin_of_the_stop_as_the_rank_reports_it() -> None:
    registry = Registry()
    rank = enter(registry, now=100.0, report=STOPPED.replace(stop=STOP.replace(age=40.0)))
    assert info(registry, rank).since == 1060.0


def test_a_stop_is_listed_with_its_number_while_it_lasts() -> None:
    registry = Registry()
    rank = enter(registry, report=STOPPED.replace(stop=STOP.replace(number=4)))
    assert (info(registry, rank).stop, info(registry, rank, epoch=2000.0).stop_id) == (4, 4)
    registry.report(rank, RUNNING, 1.0)
    assert info(registry, rank).stop is None


def test_a_time_limit_is_listed_while_its_stop_lasts() -> None:
    registry = Registry()
    limited = STOP.replace(limit=Limit(kind=LimitKind.JOB, seconds=180.0))
    rank = enter(registry, report=STOPPED.replace(stop=limited))
    assert (info(registry, rank).limit, info(registry, rank).limit_seconds) == ("SLURM ends the job in 3 min", 180.0)
    registry.report(rank, RUNNING, 1.0)
    assert (info(registry, rank).limit, info(registry, rank).limit_seconds) == ("", None)


def test_lost_rank_returns_in_the_state_that_it_reports() -> None:
    registry = Registry()
    rank = enter(registry)
    registry.disconnected(rank, 1.0)
    assert info(registry, rank).state is RankState.LOST
    again = enter(registry, now=2.0, report=RUNNING)
    assert again is rank
    assert info(registry, rank).state is RankState.RUNNING
    assert registry.expire(1e9) == []


def test_exited_key_that_registers_again_is_a_new_rank() -> None:
    registry = Registry()
    rank = enter(registry)
    registry.goodbye(rank, 1, 1.0)
    registry.disconnected(rank, 1.1)
    assert (rank.state, rank.end.exit) == (RankState.EXITED, 1)
    again = enter(registry, now=2.0)
    assert again is not rank
    assert (again.state, again.end.exit) == (RankState.STOPPED, None)
    assert registry.keys() == (again.key,)


def test_rank_found_dead_has_died_and_one_with_a_goodbye_has_not() -> None:
    registry = Registry()
    dead, gone = enter(registry, 0), enter(registry, 1)
    registry.disconnected(dead, 1.0)
    registry.found_dead(dead, 2.0)
    registry.goodbye(gone, None, 2.0)
    assert [info(registry, rank).state for rank in (dead, gone)] == [RankState.EXITED] * 2
    assert info(registry, dead).reason == DIED
    assert info(registry, gone).reason != DIED


def test_ended_ranks_are_kept_for_an_hour() -> None:
    registry = Registry()
    first, second = enter(registry, 0), enter(registry, 1)
    registry.goodbye(first, 0, 10.0)
    registry.disconnected(second, 20.0)
    assert registry.expire(10.0 + limits.ENDED_RANK_SECONDS - 1) == []
    assert registry.expire(10.0 + limits.ENDED_RANK_SECONDS) == [first.key]
    assert registry.expire(20.0 + limits.ENDED_RANK_SECONDS) == [second.key]
    assert registry.keys() == ()


def test_ended_ranks_are_bounded_and_the_oldest_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_ENDED_RANKS", 2)
    registry = Registry()
    ranks = [enter(registry, number) for number in range(4)]
    for when, rank in enumerate(reversed(ranks)):
        registry.disconnected(rank, float(when))
    assert registry.expire(5.0) == [ranks[3].key, ranks[2].key]


def test_job_with_many_ended_ranks_loses_only_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_ENDED_RANKS", 4)
    registry = Registry()
    mine = enter(registry, 0, key="mine/0", job="mine")
    theirs = [enter(registry, number, key=f"theirs/{number}", job="theirs") for number in range(8)]
    for when, rank in enumerate([mine, *theirs]):
        registry.disconnected(rank, float(when))
    assert registry.expire(10.0) == [rank.key for rank in theirs[:5]]
    assert registry.expire(1.0 + limits.ENDED_RANK_SECONDS) == [mine.key]


# -------------------------------------------------------------------------------------------------------- children


def test_process_below_a_rank_is_its_child() -> None:
    registry = Registry()
    enter(registry)
    child = enter(registry, key="c1", pid=9001, ancestors=(8800, 8790))
    second = enter(registry, key="c2", pid=9002, ancestors=(9001, 8800))
    assert (child.address, second.address) == ("gpu013:0.1", "gpu013:0.2")


def test_child_is_renumbered_when_its_parent_registers_later() -> None:
    registry = Registry()
    child = enter(registry, key="c1", pid=9001, ancestors=(8800, 8790))
    assert child.address == "gpu013:0"
    registered = registry.register(registration(), 0.0)
    assert registered.rank.address == "gpu013:0"
    assert registered.renamed == (child,)
    assert child.address == "gpu013:0.1"


@dataclass(frozen=True)
class Came:
    """A process that registers: its number and where that is from, its process id and those above it."""

    pid: int
    numbering: Numbering
    number: int = 0
    above: tuple[int, ...] = ()
    host: str = "h"
    restated: int | None = None
    run: str = "0.0"


NONE, LAUNCHER, LIBRARY = Numbering
SPAWNED = (Came(10, NONE), Came(11, NONE, above=(10,)), Came(12, NONE, above=(10,)))
"""A program that no launcher has started, and two workers of it before a library has numbered them."""
WORKERS = (Came(11, LIBRARY, above=(10,), restated=1), Came(12, LIBRARY, 1, above=(10,), restated=2))


@pytest.mark.parametrize(
    ("came", "addresses"),
    [
        pytest.param(SPAWNED, {10: "h:0", 11: "h:0.1", 12: "h:0.2"}, id="workers without numbers"),
        pytest.param((*SPAWNED, *WORKERS), {10: "h:0.3", 11: "h:0", 12: "h:1"}, id="numbers of torch"),
        pytest.param((*WORKERS, SPAWNED[0]), {10: "h:0.1", 11: "h:0", 12: "h:1"}, id="a parent that comes last"),
        pytest.param(
            (Came(10, LAUNCHER, 1), Came(11, LIBRARY, 4, above=(10,)), Came(12, NONE, 4, above=(11, 10))),
            {10: "h:1.1", 11: "h:4", 12: "h:4.1"},
            id="one task of srun for each host",
        ),
        pytest.param(
            (Came(10, LIBRARY, 3), Came(11, LIBRARY, 3, above=(10,))), {10: "h:3", 11: "h:3.1"}, id="a forked child"
        ),
        pytest.param((Came(10, NONE), Came(20, LIBRARY, host="g")), {10: "h:0.1", 20: "g:0"}, id="a driver elsewhere"),
        pytest.param(
            (Came(10, LAUNCHER), Came(11, LAUNCHER, 1, above=(10,))),
            {10: "h:0", 11: "h:1"},
            id="ranks that rank 0 starts",
        ),
        pytest.param(
            (
                Came(10, NONE),
                *(Came(11 + at, LAUNCHER, at % 2, above=(10,), run=f"0.0--{at // 2}") for at in range(4)),
                Came(15, NONE, host="g", restated=1),
            ),
            {10: "h:0.1", 11: "h:0", 12: "h:1", 13: "h:0", 14: "h:1", 15: "g:0.1"},
            id="two groups of actors of a driver",
        ),
    ],
)
@pytest.mark.parametrize("is_anew", [False, True])
def test_process_without_its_own_number_is_not_a_rank(
    came: Sequence[Came], addresses: Mapping[int, str], is_anew: bool
) -> None:
    registry = Registry()
    for one in [*came, *(came[-1:] if is_anew else ())]:
        fields: dict[str, Any] = {
            "host": one.host,
            "numbering": one.numbering,
            "ancestors": one.above,
            "child": one.restated,
            "run": one.run,
        }
        enter(registry, one.number, key=f"{one.host}/{one.pid}/{one.number}", pid=one.pid, rank=one.number, **fields)
    # The number before is another key of the same process, which the hub takes out.
    newest = {rank.process.pid: rank.address for rank in registry.ranks()}
    assert newest == addresses


# ------------------------------------------------------------------------------------------------------------ costs


def test_lost_process_that_returns_as_another_rank_is_listed_once() -> None:
    registry = Registry()
    first, other = enter(registry, 0, key="a", job="train-1", pid=7), enter(registry, 1, pid=8)
    registry.disconnected(first, 1.0)
    registry.disconnected(other, 1.0)
    registered = registry.register(registration(0, key="b", job="h-29500", pid=7), 2.0)
    assert registered.gone == first.key
    assert sorted(registry.keys()) == sorted([other.key, registered.rank.key])
    # A rank that is connected, or has exited, is no earlier registration of this process.
    assert registry.register(registration(2, key="c", job="elsewhere", pid=7), 3.0).gone is None
    registry.goodbye(registered.rank, 0, 4.0)
    assert registry.register(registration(3, key="d", pid=7), 5.0).gone is None
    assert registry.counts == Counter(rank.state for rank in registry.ranks())


def test_process_without_the_secret_does_not_replace_a_lost_rank() -> None:
    registry = Registry()
    lost = enter(registry, 0, key="a", pid=7, secret="a" * 32)
    registry.disconnected(lost, 1.0)
    for number, secret in enumerate(("", "b" * 32)):
        impostor = registration(1, key=f"other/{number}", job="other", pid=7, secret=secret)
        assert registry.register(impostor, 2.0).gone is None
    assert registry.find("a") is lost
    assert registry.register(registration(2, key="b", pid=7, secret="a" * 32), 3.0).gone == "a"


# ------------------------------------------------------------------------------------------------------- properties


class RegistryMachine(RuleBasedStateMachine):
    """Ranks that come and go in any order; the registry's table knows every move, and its indexes agree."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = Registry()
        self.now = 0.0

    def some(self, number: int, *states: RankState) -> RankRecord | None:
        rank = self.registry.find(registration(number).identity.key)
        return rank if rank is not None and rank.state in states else None

    @rule(number=st.integers(0, 4), stopped=st.booleans(), child=st.none() | st.integers(1, 3), below=st.integers(0, 4))
    def register(self, number: int, stopped: bool, child: int | None, below: int) -> None:
        self.now += 1
        report = STOPPED if stopped else RUNNING
        registered = registration(
            number, rank=0, child=child, ancestors=(8800 + below,) if below != number else (), report=report
        )
        rank = self.registry.register(registered, self.now).rank
        assert rank.state is report.state

    @rule(number=st.integers(0, 4), stopped=st.booleans())
    def report(self, number: int, stopped: bool) -> None:
        if rank := self.some(number, *LIVE_STATES):
            self.now += 1
            self.registry.heard(rank, self.now)
            self.registry.report(rank, STOPPED if stopped else RUNNING, self.now)

    @rule(number=st.integers(0, 4))
    def goodbye(self, number: int) -> None:
        if rank := self.some(number, *LIVE_STATES):
            self.registry.goodbye(rank, 0, self.now)

    @rule(number=st.integers(0, 4))
    def silent(self, number: int) -> None:
        if rank := self.some(number, *(LIVE_STATES - {RankState.UNRESPONSIVE})):
            self.registry.fell_silent(rank)

    @rule(number=st.integers(0, 4))
    def disconnect(self, number: int) -> None:
        if rank := self.some(number, *LIVE_STATES, RankState.EXITED):
            self.now += 1
            self.registry.disconnected(rank, self.now)

    @rule(number=st.integers(0, 4))
    def die(self, number: int) -> None:
        if rank := self.some(number, RankState.LOST):
            self.now += 1
            self.registry.found_dead(rank, self.now)

    @precondition(lambda self: self.now > 10)
    @rule()
    def expire(self) -> None:
        self.now += limits.ENDED_RANK_SECONDS / 2
        gone = self.registry.expire(self.now)
        assert all(self.registry.find(key) is None for key in gone)

    @invariant()
    def counts_agree(self) -> None:
        assert +self.registry.counts == Counter(rank.state for rank in self.registry.ranks())

    @invariant()
    def live_addresses_of_children_are_unique(self) -> None:
        children = [rank.address for rank in self.registry.ranks() if rank.child and rank.state is not RankState.EXITED]
        assert len(children) == len(set(children))

    def teardown(self) -> None:
        for rank in list(self.registry.ranks()):
            if rank.is_live:
                self.registry.disconnected(rank, self.now)
        self.registry.expire(self.now + 2 * limits.ENDED_RANK_SECONDS)
        assert self.registry.keys() == ()
        assert len(self.registry.children) == 0


TestRegistryMachine = RegistryMachine.TestCase
TestRegistryMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
