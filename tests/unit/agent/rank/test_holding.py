"""How long a rank holds its exit for other ranks that are kept after a crash."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.rank.holding import (
    HOLD_LOST_SECONDS,
    MAX_SITES,
    RESTATED_SECONDS,
    HoldCounts,
    Holding,
    HoldVerdict,
)
from dbg_agent.stop.inbox import ResumeThread
from dbg_wire.messages import Arrival, ChosenRank, KeptRanks, Waiting
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.support.approved import as_text

STOP = 4


class Held:
    """A rank whose exit is held, with a link that keeps what is to be called later."""

    def __init__(self) -> None:
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.went_on: list[int] = []
        self.link = SimpleNamespace(is_connected=True)
        self.number = 0
        self.address = "h:0"
        self.stopping = self
        self.inbox = SimpleNamespace(put=self._put)
        self.stops = SimpleNamespace(current=(STOP, None), number=STOP, is_hold=True, is_mine=lambda: False)
        me = cast("Any", self)
        self.holding = Holding(me, me.stops, me.inbox, me, lambda: bool(self.link.is_connected))

    def publish(self) -> None:
        """Report nothing."""

    def _put(self, stop: int, work: ResumeThread) -> None:
        self.went_on.append(stop)
        work.done()

    def end_step(self) -> None:
        """Do nothing: this rank makes no step."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self.later.append((seconds, call))

    def stop(self, *_args: Any, **_more: Any) -> None:
        self.holding.begun()
        self.body()

    def body(self) -> None:
        """Do nothing while the exit is held; a test puts its own in this place."""

    def hold_exit(self, body: Callable[[], None]) -> None:
        self.body = body  # type: ignore[method-assign]
        self.holding.on_kept(KeptRanks(ranks=(1,)))
        self.holding.hold_exit(60.0)

    def tick(self) -> None:
        _, call = self.later.pop(0)
        call()


def test_a_rank_waits_while_a_broker_reports_kept_ranks(approved: Approved, capsys: pytest.CaptureFixture[str]) -> None:
    held = Held()

    def body() -> None:
        held.tick()
        assert held.went_on == []
        held.link.is_connected = False
        held.tick()
        assert held.went_on == [STOP]

    held.hold_exit(body)
    approved(capsys.readouterr().err)


def test_ranks_that_ended_without_a_broker_are_not_waited_for() -> None:
    held = Held()

    def body() -> None:
        held.later.clear()
        held.holding.welcomed(0.0)
        assert held.later[0][0] == RESTATED_SECONDS
        held.tick()
        assert held.went_on == [STOP]

    held.hold_exit(body)


def test_kept_ranks_reported_by_a_new_broker_are_waited_for() -> None:
    held = Held()

    def body() -> None:
        held.later.clear()
        held.holding.welcomed(0.0)
        held.holding.on_kept(KeptRanks(ranks=(1,)))
        held.tick()
        assert held.went_on == []
        held.holding.on_kept(KeptRanks(ranks=()))
        assert held.went_on == [STOP]

    held.hold_exit(body)


SITE = "train.py:41"


def chosen(rank: int, arrived: int, completed: int, state: RankState | None = RankState.STOPPED) -> ChosenRank:
    return ChosenRank(rank=rank, arrived=arrived, completed=completed, state=state)


class Waits:
    """A rank that waits at SITE for chosen ones, and a clock that shows what the test has set."""

    GRACE = 60.0

    def __init__(self, *ranks: int) -> None:
        self.now = 100.0
        self.holds = HoldCounts(lambda: self.now)
        self.holds.wait(self.holds.visit(SITE, ranks), self.GRACE)

    def hear(self, *ranks: ChosenRank, after: float = 0.0) -> HoldVerdict:
        """Let time pass, hear of the chosen ranks, and return the verdict."""
        self.now += after
        if ranks:
            self.holds.hear(SITE, ranks)
        return self.holds.judge()


def test_a_chosen_rank_counts_arrivals_and_completions_of_the_last_sites() -> None:
    holds = HoldCounts(lambda: 0.0)
    for line in range(MAX_SITES + 10):
        holds.arrive(f"generated.py:{line}")
    kept = [arrival.site for arrival in holds.arrivals()]
    assert (len(kept), kept[-1]) == (MAX_SITES, f"generated.py:{MAX_SITES + 9}")
    holds = HoldCounts(lambda: 0.0)
    for site in (SITE, "other.py:1"):
        holds.arrive(site)
    holds.complete(SITE)
    holds.arrive(SITE)
    assert holds.arrivals() == (
        Arrival(site=SITE, arrived=2, completed=1),
        Arrival(site="other.py:1", arrived=1, completed=0),
    )


RUNNING, STOPPED, LOST, EXITED = RankState.RUNNING, RankState.STOPPED, RankState.LOST, RankState.EXITED

Heard = tuple[float, int, int, "RankState | None"]
"""Seconds that pass, and then what a broker says of rank 3: its arrivals, its completions, its state."""

VERDICTS: dict[str, tuple[list[Heard], HoldVerdict]] = {
    "is there for ever": ([(0, 1, 0, STOPPED), (1e6, 1, 0, STOPPED)], HoldVerdict(False)),
    "has gone on": ([(0, 1, 0, STOPPED), (1e6, 1, 1, RUNNING)], HoldVerdict(True)),
    "is not there yet": ([(0, 0, 0, RUNNING)], HoldVerdict(False, again=160.0)),
    "has exited": ([(0, 1, 0, STOPPED), (0, 1, 0, EXITED)], HoldVerdict(True, "rank 3 has exited")),
    "is lost at its stop": (
        [(0, 1, 0, STOPPED), (900, 1, 0, LOST)],
        HoldVerdict(False, again=1600.0),
    ),
    "comes back": ([(0, 1, 0, STOPPED), (900, 1, 0, LOST), (1000, 1, 0, STOPPED)], HoldVerdict(False)),
    "was lost before": ([(0, 1, 0, LOST), (60, 1, 0, LOST)], HoldVerdict(False, again=700.0)),
    "is unknown to a new broker": (
        [(0, 1, 0, STOPPED), (60, 0, 0, None)],
        HoldVerdict(False, again=760.0),
    ),
    "is known to it later": ([(0, 1, 0, STOPPED), (60, 0, 0, None), (1e6, 1, 0, STOPPED)], HoldVerdict(False)),
    "has gone on from it": (
        [(0, 1, 0, STOPPED), (60, 0, 0, None), (1e6, 1, 1, RUNNING)],
        HoldVerdict(True),
    ),
}


@pytest.mark.parametrize(("heard", "verdict"), VERDICTS.values(), ids=VERDICTS)
def test_a_chosen_rank_decides_how_long_another_one_waits(heard: list[Heard], verdict: HoldVerdict) -> None:
    waits = Waits(3)
    for seconds, arrived, completed, state in heard:
        actual = waits.hear(chosen(3, arrived, completed, state), after=seconds)
    assert actual == verdict


@pytest.mark.parametrize("state", [RUNNING, LOST])
def test_a_chosen_rank_that_misses_the_grace_is_not_waited_for(approved: Approved, state: RankState) -> None:
    waits = Waits(0)
    assert not waits.hear(chosen(0, 0, 0, state), after=Waits.GRACE - 1).resumes
    verdict = waits.hear(after=1)
    assert verdict.resumes
    approved(as_text(verdict))


def test_a_chosen_rank_lost_at_its_stop_is_waited_for_only_a_while(approved: Approved) -> None:
    waits = Waits(0)
    waits.hear(chosen(0, 1, 0))
    waits.hear(chosen(0, 1, 0, LOST))
    assert not waits.hear(after=HOLD_LOST_SECONDS - 1).resumes
    approved(as_text(waits.hear(after=1)))


def test_the_grace_starts_again_after_a_broker_returns() -> None:
    waits = Waits(0)
    waits.now += Waits.GRACE * 0.9
    waits.holds.start_again()
    assert not waits.hear(after=Waits.GRACE * 0.9).resumes
    assert waits.hear(after=Waits.GRACE).resumes


@pytest.mark.parametrize(("uptime", "begins"), [(0.0, [True]), (RESTATED_SECONDS, [])])
def test_the_grace_starts_again_only_at_a_broker_that_has_just_started(
    monkeypatch: pytest.MonkeyPatch, uptime: float, begins: list[bool]
) -> None:
    held, begun = Held(), list[bool]()
    monkeypatch.setattr(held.holding.counts, "start_again", lambda: begun.append(True))
    held.holding.welcomed(uptime)
    assert begun == begins


def test_a_rank_waits_for_the_same_visit_of_all_chosen_ranks_to_its_own_site() -> None:
    waits = Waits(0, 3)
    again = waits.holds.visit(SITE, (0, 3))
    assert again == Waiting(site=SITE, count=2, ranks=(0, 3))
    waits.holds.wait(again, 60.0)
    assert not waits.hear(chosen(0, 1, 1, RUNNING), chosen(3, 2, 2, RUNNING)).resumes
    waits.holds.hear("other.py:1", (chosen(0, 9, 9), chosen(3, 9, 9)))
    assert not waits.hear().resumes
    assert waits.hear(chosen(0, 2, 2, RUNNING), chosen(3, 2, 2, RUNNING)).resumes


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from([*RankState, None])), min_size=1, max_size=12
    )
)
def test_a_completed_or_ended_chosen_rank_always_ends_the_wait_at_once(
    heard: list[tuple[int, int, RankState | None]],
) -> None:
    waits = Waits(3)
    for arrived, completed, state in heard:
        verdict = waits.hear(chosen(3, arrived, completed, state))
    _, completed, state = heard[-1]
    assert verdict.resumes == (completed >= 1 or state is EXITED)
