"""How long a rank holds its exit for other ranks that are kept after a crash."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.rank.holding import MAX_SITES, RESTATED_SECONDS, HoldCounts, Holding, HoldVerdict
from dbg_agent.stop.inbox import GoOn
from dbg_wire.messages import Arrival, ChosenRank, Kept, Waiting
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
        self.holding = Holding(cast("Any", self))

    def _put(self, stop: int, work: GoOn) -> None:
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
        self.holding.on_kept(Kept(ranks=(1,)))
        self.holding.hold_exit(60.0)

    def tick(self) -> None:
        _, call = self.later.pop(0)
        call()


def test_it_waits_on_while_a_broker_says_that_somebody_is_kept(
    approved: Approved, capsys: pytest.CaptureFixture[str]
) -> None:
    held = Held()

    def body() -> None:
        held.tick()
        assert held.went_on == []
        held.link.is_connected = False
        held.tick()
        assert held.went_on == [STOP]

    held.hold_exit(body)
    approved(capsys.readouterr().err)


def test_those_that_ended_while_there_was_no_broker_are_not_waited_for() -> None:
    held = Held()

    def body() -> None:
        held.later.clear()
        held.holding.welcomed(0.0)
        assert held.later[0][0] == RESTATED_SECONDS
        held.tick()
        assert held.went_on == [STOP]

    held.hold_exit(body)


def test_those_that_a_new_broker_tells_of_are_waited_for() -> None:
    held = Held()

    def body() -> None:
        held.later.clear()
        held.holding.welcomed(0.0)
        held.holding.on_kept(Kept(ranks=(1,)))
        held.tick()
        assert held.went_on == []
        held.holding.on_kept(Kept(ranks=()))
        assert held.went_on == [STOP]

    held.hold_exit(body)


def test_where_crashed_ranks_are_not_kept_nobody_waits_for_them() -> None:
    held = Held()
    held.holding.on_kept(Kept(ranks=(1,)))
    held.holding.hold_exit(0.0)
    assert held.later == []


def test_it_is_said_once_why_a_rank_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    held = Held()

    def body() -> None:
        held.link.is_connected = False
        _, waited_long = held.later[0]
        waited_long()
        waited_long()
        assert held.went_on == [STOP]

    held.hold_exit(body)
    assert capsys.readouterr().err.count("long enough") == 1


SITE = "train.py:41"


class Clock:
    """A clock that shows what the test has set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def chosen(rank: int, arrived: int, completed: int, state: RankState | None = RankState.STOPPED) -> ChosenRank:
    return ChosenRank(rank=rank, arrived=arrived, completed=completed, state=state)


def counts_held(*ranks: int, grace: float = 60.0) -> tuple[HoldCounts, Clock]:
    clock = Clock()
    holds = HoldCounts(clock)
    holds.wait(holds.visit(SITE, ranks), grace)
    return holds, clock


def test_a_chosen_rank_counts_arrivals_and_completions_of_each_site() -> None:
    holds = HoldCounts(Clock())
    holds.arrive(SITE)
    holds.arrive("other.py:1")
    holds.complete(SITE)
    holds.arrive(SITE)
    assert holds.arrivals() == (
        Arrival(site=SITE, arrived=2, completed=1),
        Arrival(site="other.py:1", arrived=1, completed=0),
    )


def test_sites_are_bounded_by_letting_go_of_the_oldest() -> None:
    holds = HoldCounts(Clock())
    for line in range(MAX_SITES + 10):
        holds.arrive(f"generated.py:{line}")
    kept = [arrival.site for arrival in holds.arrivals()]
    assert len(kept) == MAX_SITES
    assert kept[-1] == f"generated.py:{MAX_SITES + 9}"


def test_it_waits_as_long_as_a_chosen_rank_is_there() -> None:
    holds, clock = counts_held(3)
    holds.hear(SITE, (chosen(3, 1, 0),))
    clock.now += 1e6
    assert holds.judge() == HoldVerdict(False)
    holds.hear(SITE, (chosen(3, 1, 1, RankState.RUNNING),))
    assert holds.judge() == HoldVerdict(True)


def test_the_end_of_one_threads_wait_leaves_another_ones() -> None:
    holds, _ = counts_held(3)
    first = holds.waiting
    assert first is not None
    second = holds.visit("other.py:1", (3,))
    holds.wait(second, 60.0)
    holds.end(first)
    assert holds.waiting is second
    holds.end(second)
    assert holds.waiting is None


def test_it_waits_for_the_same_visit_and_not_for_an_earlier_one() -> None:
    holds, _ = counts_held(3)
    again = holds.visit(SITE, (3,))
    assert again == Waiting(site=SITE, count=2, ranks=(3,))
    holds.wait(again, 60.0)
    holds.hear(SITE, (chosen(3, 1, 1, RankState.RUNNING),))
    assert not holds.judge().goes_on
    holds.hear(SITE, (chosen(3, 2, 2, RankState.RUNNING),))
    assert holds.judge().goes_on


def test_it_goes_on_with_a_sentence_when_a_chosen_rank_never_comes() -> None:
    holds, clock = counts_held(3)
    holds.hear(SITE, (chosen(3, 0, 0, RankState.RUNNING),))
    assert holds.judge() == HoldVerdict(False, again=160.0)
    clock.now = 160.0
    assert holds.judge() == HoldVerdict(True, f"rank 3 is not at {SITE} within 60 s")


def test_it_goes_on_with_a_sentence_when_a_chosen_rank_exits() -> None:
    holds, _ = counts_held(3)
    holds.hear(SITE, (chosen(3, 1, 0),))
    holds.hear(SITE, (chosen(3, 1, 0, RankState.EXITED),))
    assert holds.judge() == HoldVerdict(True, "rank 3 has exited")


def test_a_lost_rank_may_come_back() -> None:
    holds, clock = counts_held(3)
    holds.hear(SITE, (chosen(3, 1, 0),))
    clock.now = 1000.0
    holds.hear(SITE, (chosen(3, 1, 0, RankState.LOST),))
    assert holds.judge() == HoldVerdict(False, again=1600.0, lost=(3,))
    holds.hear(SITE, (chosen(3, 1, 0),))
    clock.now = 2000.0
    assert holds.judge() == HoldVerdict(False)


def test_a_broker_that_knows_nobody_yet_changes_nothing_for_the_grace() -> None:
    holds, clock = counts_held(3)
    holds.hear(SITE, (chosen(3, 1, 0),))
    holds.hear(SITE, (chosen(3, 0, 0, None),))
    clock.now += 59.0
    assert not holds.judge().goes_on
    holds.hear(SITE, (chosen(3, 1, 0),))
    clock.now += 1e6
    assert not holds.judge().goes_on


def test_it_waits_for_all_chosen_ranks() -> None:
    holds, _ = counts_held(0, 3)
    holds.hear(SITE, (chosen(0, 1, 1, RankState.RUNNING), chosen(3, 1, 0)))
    assert not holds.judge().goes_on
    holds.hear(SITE, (chosen(0, 1, 1, RankState.RUNNING), chosen(3, 1, 1)))
    assert holds.judge().goes_on


def test_what_is_said_of_another_site_is_none_of_its_business() -> None:
    holds, _ = counts_held(3)
    holds.hear("other.py:1", (chosen(3, 9, 9),))
    assert not holds.judge().goes_on


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from([*RankState, None])), min_size=1, max_size=12
    )
)
def test_whatever_is_heard_a_completed_or_ended_chosen_rank_lets_go_at_once(
    heard: list[tuple[int, int, RankState | None]],
) -> None:
    holds, _ = counts_held(3)
    for arrived, completed, state in heard:
        holds.hear(SITE, (chosen(3, arrived, completed, state),))
    _, completed, state = heard[-1]
    assert holds.judge().goes_on == (completed >= 1 or state is RankState.EXITED)


GRACE, LOST = 0.3, 600.0


def holding(*ranks: int) -> tuple[HoldCounts, Clock]:
    clock = Clock()
    holds = HoldCounts(clock)
    holds.wait(holds.visit(SITE, ranks), GRACE, LOST)
    return holds, clock


def test_one_that_is_lost_at_its_stop_is_waited_for_beyond_the_grace_and_not_for_ever(approved: Approved) -> None:
    holds, clock = holding(0)
    holds.hear(SITE, (chosen(0, 1, 0),))
    holds.hear(SITE, (chosen(0, 1, 0, RankState.LOST),))
    clock.now += LOST - 1
    assert holds.judge() == HoldVerdict(False, again=clock.now + 1, lost=(0,))
    clock.now += 1
    approved(as_text(holds.judge()))


def test_one_that_was_lost_before_this_rank_came_is_waited_for_as_well() -> None:
    holds, clock = holding(0)
    holds.hear(SITE, (chosen(0, 1, 0, RankState.LOST),))
    clock.now += GRACE
    assert not holds.judge().goes_on


def test_one_that_is_lost_before_it_stopped_has_the_grace_alone() -> None:
    holds, clock = holding(0)
    holds.hear(SITE, (chosen(0, 0, 0, RankState.LOST),))
    clock.now += GRACE
    assert holds.judge() == HoldVerdict(True, f"rank 0 is not at {SITE} within 0.3 s")


def test_a_broker_that_has_just_started_and_knows_nobody_changes_nothing() -> None:
    holds, clock = holding(0)
    holds.hear(SITE, (chosen(0, 1, 0),))
    holds.hear(SITE, (chosen(0, 0, 0, None),))
    clock.now += GRACE
    assert holds.judge() == HoldVerdict(False, again=clock.now - GRACE + LOST, lost=(0,))
    holds.hear(SITE, (chosen(0, 1, 0),))
    clock.now += 2 * LOST
    assert holds.judge() == HoldVerdict(False)
    holds.hear(SITE, (chosen(0, 1, 1, RankState.RUNNING),))
    assert holds.judge() == HoldVerdict(True)


def test_after_a_broker_has_come_back_one_that_has_not_come_yet_has_the_whole_grace_again() -> None:
    holds, clock = holding(0)
    clock.now += GRACE * 0.9
    holds.begin_anew()
    clock.now += GRACE * 0.9
    assert not holds.judge().goes_on
    clock.now += GRACE
    assert holds.judge().goes_on


def test_one_that_has_exited_is_not_waited_for_whatever_stood() -> None:
    holds, _ = holding(0)
    holds.hear(SITE, (chosen(0, 1, 0),))
    holds.hear(SITE, (chosen(0, 1, 0, RankState.EXITED),))
    assert holds.judge() == HoldVerdict(True, "rank 0 has exited")
