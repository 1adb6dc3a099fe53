"""A chosen rank that is lost during its stop may come back, so the ranks that are held for it wait on."""

from __future__ import annotations

from dbg_agent.rank.holding import HoldCounts, HoldVerdict
from dbg_wire.records.ranks import RankState
from tests.agent.rank.test_hold_counts import SITE, Clock, chosen

GRACE, LOST = 0.3, 600.0


def holding(*ranks: int) -> tuple[HoldCounts, Clock]:
    clock = Clock()
    holds = HoldCounts(clock)
    holds.wait(holds.visit(SITE, ranks), GRACE, LOST)
    return holds, clock


def test_one_that_is_lost_at_its_stop_is_waited_for_beyond_the_grace_and_not_for_ever() -> None:
    holds, clock = holding(0)
    holds.hear(SITE, (chosen(0, 1, 0),))
    holds.hear(SITE, (chosen(0, 1, 0, RankState.LOST),))
    clock.now += LOST - 1
    assert holds.judge() == HoldVerdict(False, again=clock.now + 1, lost=(0,))
    clock.now += 1
    assert holds.judge() == HoldVerdict(True, f"rank 0, stopped at {SITE}, has been lost for 600 s")


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
