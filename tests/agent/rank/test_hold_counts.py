"""Which chosen ranks a held rank waits for, by counts and a clock that the test turns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.rank.holding import MAX_SITES, HoldCounts, HoldVerdict
from dbg_wire.messages import Arrival, ChosenRank, Waiting
from dbg_wire.records.ranks import RankState

SITE = "train.py:41"


class Clock:
    """A clock that shows what the test has set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def chosen(rank: int, arrived: int, completed: int, state: RankState | None = RankState.STOPPED) -> ChosenRank:
    return ChosenRank(rank=rank, arrived=arrived, completed=completed, state=state)


def holding(*ranks: int, grace: float = 60.0) -> tuple[HoldCounts, Clock]:
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
    holds, clock = holding(3)
    holds.hear(SITE, (chosen(3, 1, 0),))
    clock.now += 1e6
    assert holds.judge() == HoldVerdict(False)
    holds.hear(SITE, (chosen(3, 1, 1, RankState.RUNNING),))
    assert holds.judge() == HoldVerdict(True)


def test_the_end_of_one_threads_wait_leaves_another_ones() -> None:
    holds, _ = holding(3)
    first = holds.waiting
    assert first is not None
    second = holds.visit("other.py:1", (3,))
    holds.wait(second, 60.0)
    holds.end(first)
    assert holds.waiting is second
    holds.end(second)
    assert holds.waiting is None


def test_it_waits_for_the_same_visit_and_not_for_an_earlier_one() -> None:
    holds, _ = holding(3)
    again = holds.visit(SITE, (3,))
    assert again == Waiting(site=SITE, count=2, ranks=(3,))
    holds.wait(again, 60.0)
    holds.hear(SITE, (chosen(3, 1, 1, RankState.RUNNING),))
    assert not holds.judge().goes_on
    holds.hear(SITE, (chosen(3, 2, 2, RankState.RUNNING),))
    assert holds.judge().goes_on


def test_it_goes_on_with_a_sentence_when_a_chosen_rank_never_comes() -> None:
    holds, clock = holding(3)
    holds.hear(SITE, (chosen(3, 0, 0, RankState.RUNNING),))
    assert holds.judge() == HoldVerdict(False, again=160.0)
    clock.now = 160.0
    assert holds.judge() == HoldVerdict(True, f"rank 3 is not at {SITE} within 60 s")


def test_it_goes_on_with_a_sentence_when_a_chosen_rank_exits() -> None:
    holds, _ = holding(3)
    holds.hear(SITE, (chosen(3, 1, 0),))
    holds.hear(SITE, (chosen(3, 1, 0, RankState.EXITED),))
    assert holds.judge() == HoldVerdict(True, "rank 3 has exited")


def test_a_lost_rank_may_come_back() -> None:
    holds, clock = holding(3)
    holds.hear(SITE, (chosen(3, 1, 0),))
    clock.now = 1000.0
    holds.hear(SITE, (chosen(3, 1, 0, RankState.LOST),))
    assert holds.judge() == HoldVerdict(False, again=1600.0, lost=(3,))
    holds.hear(SITE, (chosen(3, 1, 0),))
    clock.now = 2000.0
    assert holds.judge() == HoldVerdict(False)


def test_a_broker_that_knows_nobody_yet_changes_nothing_for_the_grace() -> None:
    holds, clock = holding(3)
    holds.hear(SITE, (chosen(3, 1, 0),))
    holds.hear(SITE, (chosen(3, 0, 0, None),))
    clock.now += 59.0
    assert not holds.judge().goes_on
    holds.hear(SITE, (chosen(3, 1, 0),))
    clock.now += 1e6
    assert not holds.judge().goes_on


def test_it_waits_for_all_chosen_ranks() -> None:
    holds, _ = holding(0, 3)
    holds.hear(SITE, (chosen(0, 1, 1, RankState.RUNNING), chosen(3, 1, 0)))
    assert not holds.judge().goes_on
    holds.hear(SITE, (chosen(0, 1, 1, RankState.RUNNING), chosen(3, 1, 1)))
    assert holds.judge().goes_on


def test_what_is_said_of_another_site_is_none_of_its_business() -> None:
    holds, _ = holding(3)
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
    holds, _ = holding(3)
    for arrived, completed, state in heard:
        holds.hear(SITE, (chosen(3, arrived, completed, state),))
    _, completed, state = heard[-1]
    assert holds.judge().goes_on == (completed >= 1 or state is RankState.EXITED)
